//! The binary as an API server and a person at a terminal meet it: certificates from `certs generate`, a small cluster in a
//! file, and real sockets on loopback.

mod answers;
mod certificates;
mod clients;
mod commands;
mod connections;
mod ending;
mod files;
mod flags;
mod overload;
mod refusals;
mod telling;
