//! The program that is tested.

use std::process::{Command, Stdio};

/// The binary, with no terminal, which the environment that tests run in must not configure.
#[must_use]
pub fn zonewise() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonewise"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ZONEWISE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}
