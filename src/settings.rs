//! What can be set, for the parts that decide.

use crate::planner::allocation::Threshold;
use crate::planner::heuristic::Heuristic;
use crate::planner::keep::KeepRules;

/// By which name the API server notes what zonewise writes.
pub const FIELD_MANAGER: &str = "zonewise";

/// What zonewise does with its decisions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Mode {
    /// Decide and patch.
    #[default]
    Active,
    /// Decide, count and explain, but patch nothing.
    Observe,
    /// Leave every slice alone.
    Off,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Active, Self::Observe, Self::Off];

    /// Its word, in flags, annotations and for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Observe => "Observe",
            Self::Off => "Off",
        }
    }
}

/// How invalid annotations and hints that a person writes are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Validation {
    /// They are not checked.
    #[default]
    Off,
    /// The person gets a warning.
    Warn,
    /// A write that makes a fault is refused.
    Enforce,
}

/// Settings of decisions.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is done with decisions.
    pub mode: Mode,
    /// How invalid annotations and hints that a person writes are handled.
    pub validation: Validation,
    /// The overload threshold.
    pub threshold: Threshold,
    /// When hints that meet the guarantee give way to better ones.
    pub keep: KeepRules,
    /// The heuristic for Services that only have `trafficDistribution: PreferSameZone`; without one Kubernetes hints them.
    pub traffic_distribution: Option<Heuristic>,
    /// How hints are planned that nothing asks for; nothing: there are none.
    pub default_mode: Option<Heuristic>,
    /// Values of `endpointslice.kubernetes.io/managed-by`: slices with one of them are neither hinted nor counted.
    pub ignored_slice_managers: Vec<String>,
    /// zonewise's own Service, as `namespace/name`: its slices are left alone.
    pub own_service: Option<String>,
    /// The name of this replica, for those who ask who answers.
    pub replica: String,
    /// A Service, as `namespace/name`, whose decisions panic: so that a release binary can be shown to survive that.
    pub panic_on_service: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Active,
            validation: Validation::Off,
            threshold: Threshold::KUBERNETES,
            keep: KeepRules::default(),
            traffic_distribution: None,
            default_mode: None,
            ignored_slice_managers: Vec::new(),
            own_service: None,
            replica: String::new(),
            panic_on_service: None,
        }
    }
}

impl Settings {
    /// Whether the slices of this Service (`namespace/name`) are left alone: the API server's own, which it must be
    /// able to write when all else is down, and zonewise's.
    #[must_use]
    pub fn is_reserved(&self, service: &str) -> bool {
        service == "default/kubernetes" || self.own_service.as_deref() == Some(service)
    }
}
