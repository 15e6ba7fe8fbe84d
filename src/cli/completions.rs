//! `zonewise completions`.

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

#[expect(clippy::unnecessary_wraps)]
pub fn run(args: &Args) -> Result<(), Failure> {
    clap_complete::generate(
        args.shell,
        &mut Cli::command(),
        "zonewise",
        &mut std::io::stdout(),
    );
    Ok(())
}
