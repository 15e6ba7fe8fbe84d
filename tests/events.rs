//! Events, as a scripted API server that fails sees them.

#[path = "events/api_server.rs"]
mod api_server;
#[path = "events/faults.rs"]
mod faults;
#[path = "support/leader.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod leader;
#[path = "support/wait.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod wait;
