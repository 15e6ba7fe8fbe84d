//! `zonewise completions`.

use std::io::Write as _;

use clap::CommandFactory as _;

use super::{Cli, Failure};

/// Print a shell's completion script
///
/// For bash: `source <(zonewise completions bash)`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "zonewise", &mut script);
    std::io::stdout()
        .write_all(&script)
        .or_else(super::ignore_closed_pipe)
}
