//! Programs and files that `make` provides.

use std::path::{Path, PathBuf};

/// The root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The chart.
pub fn chart() -> PathBuf {
    root().join("charts/zonewise")
}

/// A file of the project, read.
pub fn text_of(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What `variable` names, or else the newest of `.cache/FOLDER/VERSION…/NAME` that `make chart-tools` left.
pub fn tool(variable: &str, folder: &str, version: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let kept = root().join(".cache").join(folder);
    let versions = std::fs::read_dir(&kept).into_iter().flatten().flatten();
    let of_version =
        versions.filter(|entry| entry.file_name().to_string_lossy().starts_with(version));
    let found = of_version
        .map(|entry| entry.path().join(name))
        .filter(|path| path.exists());
    found
        .max_by_key(|path| path.metadata().and_then(|found| found.modified()).ok())
        .unwrap_or_else(|| {
            panic!(
                "The tests of the chart need their tools: run `make chart-tools`, or set {variable} (looked for \
                 {}/{version}*/{name}).",
                kept.display()
            )
        })
}
