//! zonewise keeps Kubernetes traffic in its zone without drowning any zone.
//!
//! It is an admission webhook server: the API server asks it about every EndpointSlice that is written, and it answers
//! with a JSON patch that puts a complete set of topology hints on the slice, or strips every one.
#![forbid(unsafe_code)]

pub mod admin;
pub mod certs;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod decide;
pub mod file_watch;
pub mod planner;
pub mod report;
pub mod server;
pub mod settings;
pub mod simulate;
pub mod telemetry;
pub mod webhook;
pub mod words;
