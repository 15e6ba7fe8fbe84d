//! The `zonewise` binary as an API server and a person at a terminal meet it: certificates from `certs generate`, a
//! small cluster in a file, real sockets on loopback, and nothing known of its insides.

#[path = "serve/answers.rs"]
mod answers;
#[path = "serve/binary.rs"]
mod binary;
#[path = "serve/certificates.rs"]
mod certificates;
#[path = "serve/client.rs"]
mod client;
#[path = "serve/clients.rs"]
mod clients;
#[path = "serve/cluster.rs"]
mod cluster;
#[path = "serve/commands.rs"]
mod commands;
#[path = "serve/connections.rs"]
mod connections;
#[path = "serve/ending.rs"]
mod ending;
#[path = "serve/exposition.rs"]
mod exposition;
#[path = "serve/files.rs"]
mod files;
#[path = "serve/flags.rs"]
mod flags;
#[path = "serve/overload.rs"]
mod overload;
#[path = "serve/refusals.rs"]
mod refusals;
#[path = "serve/telling.rs"]
mod telling;
#[path = "serve/wait.rs"]
mod wait;
