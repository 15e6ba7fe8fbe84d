//! Every value of the chart, switched to another than its default.

use std::collections::{BTreeMap, BTreeSet};

use super::helm::{Helm, Release};
use super::switches::switches;
use super::values::{defaults, paths};

/// Values that may be given and change nothing: there is but one that is taken.
const WITHOUT_A_CHOICE: [&str; 1] = ["webhook.failurePolicy"];

#[test]
fn every_value_is_switched() {
    let switched: BTreeSet<String> = switches()
        .iter()
        .map(|switch| switch.path.to_owned())
        .collect();
    let known: BTreeSet<String> = paths().into_iter().collect();
    assert_eq!(switched, known);
}

#[test]
#[ignore = "needs helm 3: make ci"]
fn every_value_has_an_effect_and_both_helms_render_the_same() {
    let (four, three) = (Helm::four(), Helm::three());
    let mut unswitched = BTreeMap::new();
    for switch in switches() {
        let path = switch.path;
        let [without, with] = switch.values();
        let rendered = four.objects(&Release::usual(), &with);
        let by_three = three.objects(&Release::usual(), &with);
        assert_eq!(rendered, by_three, "{path} with helm 4 and 3");
        let before = unswitched
            .entry(without.to_string())
            .or_insert_with(|| four.objects(&Release::usual(), &without));
        let changes = rendered != *before;
        assert_eq!(changes, !WITHOUT_A_CHOICE.contains(&path), "{path}");
    }
}

#[test]
fn no_switch_is_the_default() {
    let defaults = defaults();
    for switch in switches()
        .iter()
        .filter(|switch| !WITHOUT_A_CHOICE.contains(&switch.path))
    {
        let pointer = format!("/{}", switch.path.replace('.', "/"));
        assert_ne!(
            defaults.pointer(&pointer),
            Some(&switch.value),
            "{}",
            switch.path
        );
    }
}
