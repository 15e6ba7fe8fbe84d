//! Events, as a scripted API server that fails sees them.

mod api_server;
mod faults;
