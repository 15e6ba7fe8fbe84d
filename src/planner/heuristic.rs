//! The ways to plan hints.

/// A way to plan hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heuristic {
    /// In proportion to CPU, every endpoint for one zone.
    Auto,
    /// Endpoints for several zones, where Auto has no plan or one that keeps less traffic in its zone.
    Overlap,
    /// Every endpoint for its own zone, where that keeps the guarantee.
    PreferZone,
}

impl Heuristic {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Overlap, Self::PreferZone];

    /// Its word, in JSON, flags and for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Overlap => "Overlap",
            Self::PreferZone => "PreferZone",
        }
    }

    /// The value of the topology annotation that asks for it.
    #[must_use]
    pub fn annotation(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Overlap => "zonewise.dev/Overlap",
            Self::PreferZone => "zonewise.dev/PreferZone",
        }
    }
}
