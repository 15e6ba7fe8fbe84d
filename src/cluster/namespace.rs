//! What a Namespace says for all of its Services.

use super::annotations::Annotations;
use super::wire::{Namespace, Wire as _};

/// A Namespace, as far as decisions on its Services are concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// What its annotations ask for.
    pub annotations: Annotations,
    /// Set where a field has an unexpected type: nothing can be decided on its Services then.
    pub odd_field: Option<&'static str>,
}

impl NamespaceRecord {
    /// Reads a Namespace.
    #[must_use]
    pub fn read(wire: &Namespace<Box<str>>) -> Self {
        Self {
            annotations: Annotations::read(wire.metadata()),
            odd_field: wire.odd_field(),
        }
    }

    /// Whether it says nothing, as most do.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }
}
