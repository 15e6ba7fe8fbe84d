//! Every value of the chart, switched to another than its default.

use std::collections::BTreeSet;

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
fn every_value_has_an_effect() {
    let helm = Helm::four();
    for switch in switches() {
        let path = switch.path;
        let [before, after] = switch
            .values()
            .map(|values| helm.objects(&Release::usual(), &values));
        assert_eq!(before != after, !WITHOUT_A_CHOICE.contains(&path), "{path}");
    }
}

#[test]
#[ignore = "needs helm 3: make ci"]
fn every_value_has_the_same_effect_with_helm_3() {
    let helms = [Helm::four(), Helm::three()];
    for switch in switches() {
        let [_, values] = switch.values();
        let rendered = helms
            .each_ref()
            .map(|helm| helm.objects(&Release::usual(), &values));
        assert_eq!(rendered[0], rendered[1], "{}", switch.path);
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
