//! CPU quantities out of any text.

use proptest::prelude::*;
use zonewise::planner::quantity::{Millicores, parse_cpu};

use crate::for_all::for_all;

#[test]
fn any_text_is_a_quantity_of_no_more_than_the_cap_or_an_error() {
    let texts = prop_oneof![
        any::<String>(),
        "[-+]?[0-9]{0,30}[.]?[0-9]{0,30}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,25}",
        "[-+0-9.eEinumkKMGTP \u{a0}\u{2003}\u{85}\t]{0,12}",
    ];
    for_all(50_000, texts, |text| {
        prop_assert!(parse_cpu(&text).unwrap_or_default() <= Millicores::MOST);
        Ok(())
    });
}

#[test]
fn more_cores_are_never_fewer_millicores() {
    let cores = || prop_oneof![0u128..=2000, 0u128..=2_000_000_000, any::<u128>()];
    for_all(
        20_000,
        (cores(), cores(), 0usize..=3),
        |(some, other, zeros)| {
            let parse = |cores: u128| parse_cpu(&format!("{}{cores}", "0".repeat(zeros))).ok();
            let capped = some
                .saturating_mul(1000)
                .min(u128::from(Millicores::MOST.0));
            prop_assert_eq!(
                parse(some).map(|millicores| u128::from(millicores.0)),
                Some(capped)
            );
            prop_assert!(parse(some.min(other)) <= parse(some.max(other)));
            Ok(())
        },
    );
}
