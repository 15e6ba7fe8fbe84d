//! What holds along random traces, and the command `zonewise simulate`.

#[path = "simulate/command.rs"]
mod command;
#[path = "simulate/guarantee.rs"]
mod guarantee;
#[path = "support/program.rs"]
mod program;
