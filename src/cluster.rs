//! What is known of the cluster.
//!
//! Objects come as lean [`wire`] types, from the API server ([`watch`]) or from [`files`], are read for their meaning
//! ([`node`], [`namespace`], [`service`], [`annotations`], [`mod@slice`]) and end as compact records in the one [`store`], which requests read without a
//! lock.
//!
//! ```text
//! API server ──watch──┐
//!                     ├─ wire ─ meaning ─ Writer (one) ─▶ Cluster ◀─ read ─ decide
//! YAML, JSON ──files──┘
//! ```

pub mod annotations;
pub mod changes;
pub mod files;
pub mod key;
pub mod loose;
pub mod namespace;
pub mod node;
pub mod selector;
pub mod service;
pub mod slice;
pub mod slices;
pub mod store;
pub mod watch;
pub mod wire;
