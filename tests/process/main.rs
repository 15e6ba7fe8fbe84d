//! The binary as an API server and a person at a terminal meet it, and the parts of it that call the API server, all against
//! scripted servers that fail as they are told.

mod blocking;
mod events;
#[path = "../support/leader.rs"]
#[allow(dead_code, reason = "the tests on the real API server use the rest")]
mod leader;
mod lease;
#[path = "../support/port.rs"]
mod port;
#[path = "../support/program.rs"]
mod program;
mod scripted;
mod serve;
mod simulate;
#[path = "../support/wait.rs"]
mod wait;
mod watch_faults;
