//! The command line: one file for each subcommand.

mod api;
mod certificates;
mod certs;
mod check;
mod completions;
mod connect;
mod control;
mod decisions;
mod demo;
mod explain;
mod render;
mod serve;
mod simulate;
mod strip;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::words;

/// Keeps Kubernetes traffic in its zone without drowning any zone.
///
/// zonewise is an admission webhook: the API server asks it about every EndpointSlice, and it puts a complete set of
/// topology hints on the slice, in proportion to each zone's CPU, or strips every one and says why.
///
/// Try `zonewise demo`: it needs no cluster.
#[derive(Debug, Parser)]
#[command(
    name = "zonewise",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Examples:
  zonewise demo --once
  zonewise explain -A
  zonewise serve --help

Exit status:
  0  all went well
  1  it went wrong
  2  it could not begin: wrong arguments, no such Service, a file or cluster that can't be read"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Demo(demo::Args),
    Explain(explain::Args),
    Check(check::Args),
    Strip(strip::Args),
    Simulate(simulate::Args),
    #[command(subcommand)]
    Certs(certs::Command),
    Completions(completions::Args),
}

/// What went wrong, for the person at the terminal.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// What was asked for can't be: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// What was asked for failed: exit status 1.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    #[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
    fn usage(problem: impl ToString) -> Self {
        Self::Usage(problem.to_string())
    }

    #[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
    fn failed(problem: impl ToString) -> Self {
        Self::Failed(problem.to_string())
    }
}

/// Whoever reads may have seen enough.
fn ignore_closed_pipe(error: std::io::Error) -> Result<(), Failure> {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(Failure::failed(error))
    }
}

/// Parses arguments and runs.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // The first provider that is installed counts for kube's connections too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let result = match cli.command {
        Command::Serve(args) => serve::run(*args),
        Command::Demo(args) => demo::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Strip(args) => strip::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Certs(command) => certs::run(&command),
        Command::Completions(args) => completions::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure_text = failure.to_string();
            let lines: Vec<String> = failure_text.split('\n').map(words::printable).collect();
            anstream::eprintln!(
                "{}error:{} {}",
                render::RED.render(),
                render::RED.render_reset(),
                lines.join("\n")
            );
            match failure {
                Failure::Usage(_) => ExitCode::from(2),
                Failure::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn each_flag_has_an_environment_variable() {
        use clap::CommandFactory as _;
        check_flags(&Cli::command());
    }

    fn check_flags(command: &clap::Command) {
        let flags = command
            .get_arguments()
            .filter(|a| a.get_long().is_some() && !a.is_hide_set());
        for flag in flags.filter(|a| !["help", "version"].contains(&a.get_id().as_str())) {
            let long = flag.get_long().unwrap();
            let expected = format!("ZONEWISE_{}", long.replace('-', "_").to_uppercase());
            let variable = flag.get_env().and_then(|e| e.to_str());
            assert_eq!(
                variable,
                Some(&*expected),
                "{} --{long}",
                command.get_name()
            );
        }
        command.get_subcommands().for_each(check_flags);
    }
}
