//! The binary, and parts of the library, against servers that follow a script: no control plane and no cluster.
//!
//! Each test has processes, ports and servers of its own. Tests mostly wait, so run more of them at once than there are
//! cores: `cargo test --test process -- --test-threads 12`.

mod api_server;
mod binary;
mod check;
#[path = "../support/claims.rs"]
mod claims;
mod client;
mod cluster;
#[path = "../support/dice.rs"]
#[allow(dead_code, reason = "the tests of the library use the rest")]
mod dice;
mod events;
mod exposition;
#[path = "../support/leader.rs"]
#[allow(dead_code, reason = "the tests on the real API server use the rest")]
mod leader;
mod lease;
#[path = "../support/port.rs"]
mod port;
#[path = "../support/program.rs"]
mod program;
mod serve;
mod simulate;
#[path = "../support/wait.rs"]
mod wait;
mod watch;
