//! Parse arguments, run; nothing else.

fn main() -> std::process::ExitCode {
    zonewise::cli::main()
}
