//! The `zonewise` binary as an API server and a person at a terminal meet it: certificates from `certs generate`, a
//! small cluster in a file, real sockets on loopback, and nothing known of its insides.

mod answers;
mod binary;
mod certificates;
mod client;
mod clients;
mod cluster;
mod commands;
mod connections;
mod ending;
mod exposition;
mod files;
mod flags;
mod overload;
mod refusals;
mod telling;
