//! The program under test.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// The binary, with no terminal. The environment of the test run does not configure it.
#[must_use]
pub fn zonewise() -> Command {
    unconfigured(Command::new(binary()))
}

/// The path of the binary. `ZONEWISE_TEST_BINARY` names another build of it, such as the release build.
pub fn binary() -> OsString {
    const VARIABLE: &str = "ZONEWISE_TEST_BINARY";
    let set = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
    let path = set.unwrap_or_else(|| env!("CARGO_BIN_EXE_zonewise").into());
    assert!(
        Path::new(&path).is_file(),
        "{VARIABLE} names {}, which does not exist",
        path.display()
    );
    path
}

/// A command with no terminal and without the variables that configure zonewise.
pub fn unconfigured(mut command: Command) -> Command {
    const OTHERS: [&str; 4] = ["KUBECONFIG", "NO_COLOR", "RUST_BACKTRACE", "RUST_LOG"];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("ZONEWISE_") || text.starts_with("CLICOLOR") || OTHERS.contains(&&*text)
        {
            command.env_remove(&name);
        }
    }
    command.stdin(Stdio::null());
    command
}
