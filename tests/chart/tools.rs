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

/// The file that `variable` names, or else the newest `.cache/FOLDER/VERSION…/NAME`.
///
/// # Panics
/// Where that file does not exist.
pub fn tool(variable: &str, folder: &str, version: &str, name: &str) -> PathBuf {
    let set = std::env::var_os(variable).filter(|path| !path.is_empty());
    if let Some(path) = set.map(PathBuf::from) {
        assert!(
            path.exists(),
            "{variable} names {}, which does not exist",
            path.display()
        );
        return path;
    }
    newest(&root().join(".cache").join(folder), version, name).unwrap_or_else(|| {
        panic!("{folder} {version} is not built: run `make controlplane chart-tools`, or set {variable}")
    })
}

fn newest(folder: &Path, version: &str, name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of_version =
        versions.filter(|entry| entry.file_name().to_string_lossy().starts_with(version));
    let paths = of_version.map(|entry| entry.path().join(name));
    let built = paths.filter(|path| path.exists());
    built.max_by_key(|path| path.metadata().and_then(|found| found.modified()).ok())
}
