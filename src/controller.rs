//! What one replica does for all of them.
//!
//! Every replica answers reviews and looks at what differs from fresh decisions; writing to the cluster is the work of the
//! one that holds the [`lease`].

pub mod agenda;
pub mod drift;
pub mod events;
pub mod lease;
pub mod look;
pub mod metrics;
