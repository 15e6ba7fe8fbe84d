//! Programs and files that `make` provides.

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-R").arg(from).arg(to).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "cp -R {} failed",
        from.display()
    );
}

/// The path in `variable`, or else the newest `.cache/FOLDER/VERSION…/NAME`.
///
/// # Panics
/// Where neither exists.
pub fn tool(variable: &str, folder: &str, version: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let kept = root().join(".cache").join(folder);
    let versions = std::fs::read_dir(&kept).into_iter().flatten().flatten();
    let of_version =
        versions.filter(|entry| entry.file_name().to_string_lossy().starts_with(version));
    let paths = of_version.map(|entry| entry.path().join(name));
    let built = paths.filter(|path| path.exists());
    let newest = built.max_by_key(|path| path.metadata().and_then(|found| found.modified()).ok());
    newest.unwrap_or_else(|| {
        panic!("{folder} {version} is not built: run `make chart-tools`, or set {variable}")
    })
}
