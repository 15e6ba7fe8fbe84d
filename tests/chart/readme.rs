//! The chart's README, made from its values.

use std::process::Command;

use tempfile::TempDir;

use super::tools::{chart, text_of, tool};
use super::values::paths;

#[test]
#[ignore = "needs helm-docs: make ci"]
fn the_readme_is_up_to_date() {
    let copy = TempDir::new().expect("a temporary folder can be made");
    for file in [
        "Chart.yaml",
        "values.yaml",
        "README.md.gotmpl",
        ".helmignore",
    ] {
        std::fs::copy(chart().join(file), copy.path().join(file)).expect("it can be copied");
    }
    let helm_docs = tool("ZONEWISE_HELM_DOCS", "helm-docs", "v", "helm-docs");
    let made = Command::new(helm_docs)
        .arg("--chart-search-root")
        .arg(copy.path())
        .args(["--sort-values-order", "file", "--log-level", "warning"])
        .output()
        .expect("helm-docs runs");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let made =
        std::fs::read_to_string(copy.path().join("README.md")).expect("helm-docs wrote README.md");
    assert!(
        made == text_of("charts/zonewise/README.md"),
        "README.md is not what values.yaml says: run `make chart-readme`"
    );
}

#[test]
fn every_value_has_a_line_that_says_what_it_is() {
    let readme = text_of("charts/zonewise/README.md");
    for path in paths() {
        let row = readme
            .lines()
            .find(|line| line.starts_with(&format!("| {path} |")));
        let row = row.unwrap_or_else(|| panic!("README.md has no row for {path}"));
        let described = row
            .trim_end_matches(" |")
            .rsplit(" | ")
            .next()
            .unwrap_or_default();
        assert!(described.len() > 8, "{row}");
    }
}
