//! What the API server asks and what it is answered.

pub mod asked;
pub mod decided;
pub mod json;
pub mod managers;
pub mod mutate;
pub mod patch;
pub mod person;
pub mod review;
pub mod sent;
pub mod stored;
pub mod validate;
pub mod warnings;

/// Where the mutating webhook answers.
pub const MUTATE_PATH: &str = "/mutate";

/// Where the validating webhook answers.
pub const VALIDATE_PATH: &str = "/validate";
