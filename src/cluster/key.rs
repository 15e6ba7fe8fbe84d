//! Names as numbers.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use std::sync::OnceLock;

/// A name, as a 64-bit hash under a key that is drawn at random for each process.
///
/// Records hold these in place of zone, node and pod names: comparing is all that is done with them, the text of a
/// counted zone is found in the capacity, and no name that a request or a slice brings is ever stored. SipHash under a
/// secret key makes collisions a matter of chance alone: about one in 10^10 for a hundred thousand names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(NonZeroU64);

impl Key {
    /// The number for `name`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        static STATE: OnceLock<RandomState> = OnceLock::new();
        let hash = STATE.get_or_init(RandomState::new).hash_one(name);
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    /// [`Self::of`] a name that is there and not empty.
    #[must_use]
    pub fn of_present(name: Option<&str>) -> Option<Self> {
        name.filter(|name| !name.is_empty()).map(Self::of)
    }

    /// The bare number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        assert_eq!(Key::of("zone-a"), Key::of("zone-a"));
        assert_ne!(Key::of("zone-a"), Key::of("zone-b"));
        assert_eq!(Key::of_present(Some("")), None);
    }
}
