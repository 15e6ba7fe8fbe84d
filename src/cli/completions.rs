//! `zonewise completions`.

use std::io::Write as _;

use clap::CommandFactory as _;

use super::{Cli, Failure};

/// Print a shell's completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  source <(zonewise completions bash)
  zonewise completions zsh > ~/.zfunc/_zonewise
  zonewise completions fish > ~/.config/fish/completions/zonewise.fish")]
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
