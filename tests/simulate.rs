//! The command `zonewise simulate`.

#[path = "simulate/command.rs"]
mod command;
#[path = "support/program.rs"]
mod program;
