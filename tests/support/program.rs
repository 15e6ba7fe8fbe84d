//! The program that is tested.

use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The binary with no standard input, which the environment that tests run in must not configure.
#[must_use]
pub fn zonewise() -> Command {
    unconfigured(Command::new(binary()))
}

/// The binary's path. `ZONEWISE_TEST_BINARY` names another build of it, such as that of a release.
pub fn binary() -> OsString {
    let built = || env!("CARGO_BIN_EXE_zonewise").into();
    std::env::var_os("ZONEWISE_TEST_BINARY").unwrap_or_else(built)
}

/// A command that runs the binary, without what would configure it.
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
