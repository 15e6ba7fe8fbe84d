//! What `helm install` says at the end, and what the helm test is told.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::helm::{Helm, Objects, Release};
use super::program::zonewise;
use super::render::test_pod;
use super::tools::{chart, copy, text_of};
use super::values::merged;

/// NOTES, which helm shows of an installation alone: so a copy of the chart has them in an object.
fn notes(helm: &Helm, values: &Value) -> String {
    let folder = TempDir::new().expect("a temporary folder can be made");
    copy(&chart(), folder.path());
    let release = Release {
        chart: folder.path().join("zonewise"),
        ..Release::usual()
    };
    let templates = release.chart.join("templates");
    let write = |name: &str, text: String| {
        std::fs::write(templates.join(name), text).expect("a file can be written");
    };
    let text = text_of("charts/zonewise/templates/NOTES.txt");
    write(
        "_notes.tpl",
        format!("{{{{- define \"notes\" }}}}{text}{{{{ end }}}}"),
    );
    write(
        "notes.yaml",
        "kind: Notes\nmetadata: {name: notes}\ntext: {{ include \"notes\" . | quote }}\n"
            .to_owned(),
    );
    let text = helm.template(&release, values).expect("it renders");
    let objects = Objects::parse(&text);
    let text = objects.the("Notes")["text"].as_str();
    text.expect("there are NOTES").to_owned()
}

/// The flags that a command has, by its help.
fn flags_of(command: &str) -> BTreeSet<String> {
    let output = zonewise().args([command, "--help"]).output();
    let help = String::from_utf8(output.expect("zonewise runs").stdout).expect("help is text");
    let words = help.split_whitespace().map(|word| word.trim_matches(','));
    let flags = words.filter(|word| word.starts_with("--"));
    flags.map(str::to_owned).collect()
}

each_helm!(helm_test_and_notes_check_with_the_flags_of_the_replicas);

fn helm_test_and_notes_check_with_the_flags_of_the_replicas(helm: &Helm) {
    let values = json!({
        "mode": "Observe",
        "trafficDistribution": "Auto",
        "overloadThreshold": 0.35,
        "nodeGrace": "90s",
        "freezeNotReady": 0.7,
        "excludedNodeLabels": ["example.com/edge"],
        "ignoredSliceManagers": ["mesh.example.com", "mirror"],
        "extraArgs": ["--drift-pace=5", "--keep-overload=0.2", "--keep-in-zone=0.01"],
    });
    let objects = helm.objects(&Release::usual(), &values);
    let known = flags_of("check");
    let flag = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    let decided_by = objects
        .arguments()
        .into_iter()
        .filter(|it| known.contains(&flag(it)));
    let decided_by: BTreeSet<&str> = decided_by.collect();
    assert!(decided_by.len() > 9, "{decided_by:?}");
    assert!(decided_by.contains("--ignored-slice-managers=mesh.example.com,mirror"));
    let checked_by = texts(&test_pod(&objects)["spec"]["containers"][0]["args"]);
    let lacks: Vec<_> = decided_by
        .iter()
        .filter(|it| !checked_by.contains(*it))
        .collect();
    assert_eq!(lacks, Vec::<&&str>::new());
    let without_test = merged(&values, &json!({"helmTest": {"enabled": false}}));
    let notes = notes(helm, &without_test);
    let line = notes
        .lines()
        .find_map(|line| line.strip_prefix("  zonewise "));
    let words: Vec<&str> = line.expect("NOTES has the line").split(' ').collect();
    assert_eq!(words, checked_by);
}

#[test]
fn notes_explain_by_the_flags_of_the_replicas_as_a_shell_reads_them() {
    let values = json!({
        "overloadThreshold": 0.35,
        "capacityNodeSelector": "pool in (web,api)",
        "extraArgs": ["--drift-pace=5", "--keep-overload=0.2"],
    });
    let known = flags_of("explain");
    let objects = Helm::four().objects(&Release::usual(), &values);
    let decided_by = objects.arguments().into_iter().filter(|argument| {
        let flag = argument.split('=').next().unwrap_or_default();
        known.contains(flag)
    });
    let quoted = decided_by.map(|argument| {
        if argument.contains(' ') {
            format!("'{argument}'")
        } else {
            argument.to_owned()
        }
    });
    let line = ["zonewise explain -A".to_owned()].into_iter().chain(quoted);
    let line = line.collect::<Vec<_>>().join(" ");
    let said = notes(&Helm::four(), &values);
    assert!(said.contains(&line), "{said:?} has no {line:?}");
}

fn texts(values: &Value) -> Vec<&str> {
    let values = values.as_array().expect("a list");
    values.iter().filter_map(Value::as_str).collect()
}

#[test]
fn notes_name_the_check_where_helm_can_not_test() {
    let helm = Helm::four();
    let test = "helm -n zonewise test zonewise";
    assert!(notes(&helm, &json!({})).contains(test));
    let without_roles = json!({"rbac": {"create": false}});
    let said = notes(&helm, &without_roles);
    assert!(
        !said.contains(test) && said.contains("  zonewise check --namespace=zonewise "),
        "{said}"
    );
    let given = json!({"helmTest": {"serviceAccountName": "checker"}});
    assert!(notes(&helm, &merged(&without_roles, &given)).contains(test));
}

#[test]
fn notes_say_that_nothing_is_opted_in_and_how_to_see_what_would_gain() {
    let said = |values: Value| notes(&Helm::four(), &values);
    let nothing = "No value opts Services in";
    let by_default = said(json!({}));
    let (_, gain) = by_default.split_once(nothing).expect("it is said");
    let gain: Vec<&str> = gain.lines().collect();
    assert!(gain[1].ends_with("To see which Services would gain:"));
    assert!(gain[2].starts_with("  zonewise explain -A "), "{gain:?}");
    for opted_in in ["trafficDistribution", "defaultMode"] {
        let said = said(json!({opted_in: "Overlap"}));
        assert!(!said.contains(nothing) && said.contains("  zonewise explain -A "));
    }
}

#[test]
fn values_of_an_older_chart_are_ignored_and_notes_say_what_replaces_them() {
    let helm = Helm::four();
    let flag = "--traffic-distribution";
    let older = json!({"honorTrafficDistribution": true, "defaultHeuristic": "Auto"});
    let objects = helm.objects(&Release::usual(), &older);
    assert_eq!(objects.flag(flag), Some("None"));
    let said = notes(&helm, &older);
    for part in [
        "Ignored: honorTrafficDistribution and defaultHeuristic. trafficDistribution replaces both and is None.",
        "--reuse-values --set trafficDistribution=Auto",
    ] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    let off = notes(&helm, &json!({"honorTrafficDistribution": false}));
    assert!(
        off.contains(
            "Ignored: honorTrafficDistribution. trafficDistribution replaces it and is None."
        ),
        "{off}"
    );
    assert!(!off.contains("--set trafficDistribution"), "{off}");
    let chosen = merged(&older, &json!({"trafficDistribution": "Overlap"}));
    let objects = helm.objects(&Release::usual(), &chosen);
    assert_eq!(objects.flag(flag), Some("Overlap"));
    assert!(!notes(&helm, &chosen).contains("--set trafficDistribution"));
    assert!(!notes(&helm, &json!({})).contains("Ignored"));
}
