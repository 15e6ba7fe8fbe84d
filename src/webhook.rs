//! What the API server asks and what it is answered.

pub mod mutate;
pub mod patch;
pub mod review;
pub mod stored;
