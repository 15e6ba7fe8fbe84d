//! The flags that decisions follow, the same for every command that decides.

use std::convert::Infallible;
use std::time::Duration;

use super::values;
use crate::cluster::node::{CONTROL_PLANE_LABELS, NodeRules};
use crate::cluster::selector::NodeSelector;
use crate::cluster::store::StoreRules;
use crate::planner::allocation::Threshold;
use crate::planner::capacity::{CapacityRules, Measure};
use crate::planner::keep::KeepRules;
use crate::settings::{Mode, Settings};

/// What decisions follow.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Decisions")]
pub struct DecisionArgs {
    /// Active patches; Observe decides, counts and explains, but patches nothing; Off leaves every slice alone
    #[arg(
        long,
        env = "ZONEWISE_MODE",
        value_enum,
        default_value_t,
        ignore_case = true
    )]
    mode: Mode,
    #[command(flatten)]
    plans: PlanArgs,
    /// How long a node may lack zone or CPU before that counts: a new one is left out meanwhile, and one that has lost them
    /// counts as before
    #[arg(long, env = "ZONEWISE_NODE_GRACE", default_value = "60s", value_parser = values::duration, value_name = "DURATION")]
    node_grace: Duration,
    /// Labels that leave a node out of capacity, whatever their value, separated by commas [default:
    /// node-role.kubernetes.io/control-plane,node-role.kubernetes.io/master]
    #[arg(long, env = "ZONEWISE_EXCLUDED_NODE_LABELS", default_values = CONTROL_PLANE_LABELS, hide_default_value = true, value_parser = values::label_key, value_delimiter = ',', value_name = "LABEL,...")]
    excluded_node_labels: Vec<String>,
    /// What a zone's share is measured by: the allocatable CPU of its nodes, or their number
    #[arg(
        long,
        env = "ZONEWISE_CAPACITY",
        value_enum,
        default_value_t,
        ignore_case = true
    )]
    capacity: Measure,
    /// Only nodes with these labels count, as in pool=web,!spot
    #[arg(long, env = "ZONEWISE_CAPACITY_NODE_SELECTOR", value_parser = values::node_selector, value_name = "SELECTOR")]
    capacity_node_selector: Option<NodeSelector>,
    /// The part of the counted nodes that may lack zone or CPU: hints go on without them. At 0 one such node stops all hints,
    /// as in Kubernetes
    #[arg(long, env = "ZONEWISE_NODE_INFO_TOLERANCE", default_value = "0", value_parser = values::tolerance, allow_negative_numbers = true, value_name = "FRACTION")]
    node_info_tolerance: u32,
    /// Neither hint nor count slices whose label endpointslice.kubernetes.io/managed-by has one of these values: for a data
    /// plane that does not read them, such as slices of Cilium's cluster mesh. kube-proxy reads all slices
    #[arg(long, env = "ZONEWISE_IGNORED_SLICE_MANAGERS", value_parser = values::label_value, value_delimiter = ',', value_name = "MANAGER,...")]
    ignored_slice_managers: Vec<String>,
    #[command(flatten)]
    opt_in: OptInArgs,
}

/// Which Services are zonewise's to hint.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Decisions")]
pub struct OptInArgs {
    /// How hints are planned for Services that only have trafficDistribution: PreferSameZone or PreferClose: Auto, Overlap or
    /// PreferZone; with None Kubernetes hints them
    #[arg(long, env = "ZONEWISE_TRAFFIC_DISTRIBUTION", default_value = "None", value_parser = values::optional_heuristic, value_name = "HEURISTIC")]
    traffic_distribution: values::OptionalHeuristic,
    /// How hints are planned for Services without an opt-in and without a trafficDistribution: None, Auto, Overlap or PreferZone
    #[arg(long, env = "ZONEWISE_DEFAULT_MODE", default_value = "None", value_parser = values::optional_heuristic, value_name = "HEURISTIC")]
    default_mode: values::OptionalHeuristic,
    /// zonewise's own Service, whose slices are left alone
    #[arg(long, env = "ZONEWISE_OWN_SERVICE", value_parser = values::service_name, value_name = "NAMESPACE/NAME")]
    own_service: Option<String>,
    // Flags that --traffic-distribution replaces: each value is refused, also from the environment.
    #[arg(long, env = "ZONEWISE_HONOR_TRAFFIC_DISTRIBUTION", hide = true, num_args = 0..=1, default_missing_value = "true", value_parser = values::honor_traffic_distribution)]
    honor_traffic_distribution: Option<Infallible>,
    #[arg(long, env = "ZONEWISE_DEFAULT_HEURISTIC", hide = true, value_parser = values::default_heuristic)]
    default_heuristic: Option<Infallible>,
}

/// What plans follow, whatever Services and nodes say.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Decisions")]
pub struct PlanArgs {
    /// How far above the average an endpoint may be loaded: 0.2 is 20 %
    #[arg(long, env = "ZONEWISE_OVERLOAD_THRESHOLD", default_value = "0.2", value_parser = values::threshold, allow_negative_numbers = true, value_name = "DECIMAL")]
    overload_threshold: Threshold,
    /// Hints that meet the threshold stay unless a fresh plan lowers the worst overload by more than this
    #[arg(long, env = "ZONEWISE_KEEP_OVERLOAD", default_value = "0.10", value_parser = values::fraction, allow_negative_numbers = true, value_name = "FRACTION")]
    keep_overload: f64,
    /// …or raises the part of the traffic that stays in its zone by more than this
    #[arg(long, env = "ZONEWISE_KEEP_IN_ZONE", default_value = "0.05", value_parser = values::fraction, allow_negative_numbers = true, value_name = "FRACTION")]
    keep_in_zone: f64,
    /// Hold capacity as it was while more than this part of the nodes is NotReady
    #[arg(long, env = "ZONEWISE_FREEZE_NOT_READY", default_value = "0.55", value_parser = values::fraction, allow_negative_numbers = true, value_name = "FRACTION")]
    freeze_not_ready: f64,
}

impl PlanArgs {
    /// How to decide, all else being as by default.
    pub fn settings(&self) -> Settings {
        Settings {
            threshold: self.overload_threshold,
            keep: KeepRules {
                overload: self.keep_overload,
                in_zone: self.keep_in_zone,
            },
            ..Settings::default()
        }
    }

    /// How to sum nodes up, all else being as by default.
    pub fn store_rules(&self) -> StoreRules {
        StoreRules {
            freeze_not_ready: self.freeze_not_ready,
            ..StoreRules::default()
        }
    }
}

impl OptInArgs {
    /// How to decide, all else being as by default.
    pub fn settings(&self) -> Settings {
        self.within(Settings::default())
    }

    fn within(&self, settings: Settings) -> Settings {
        Settings {
            traffic_distribution: self.traffic_distribution.0,
            default_mode: self.default_mode.0,
            own_service: self.own_service.clone(),
            ..settings
        }
    }
}

impl DecisionArgs {
    /// zonewise's own Service, as `namespace/name`.
    pub fn own_service(&self) -> Option<&str> {
        self.opt_in.own_service.as_deref()
    }

    /// Managers of slices that are left out.
    fn ignored_slice_managers(&self) -> Vec<String> {
        let managers = self.ignored_slice_managers.iter();
        // An empty list is one empty text.
        managers
            .filter(|manager| !manager.is_empty())
            .cloned()
            .collect()
    }

    /// How to decide.
    pub fn settings(&self) -> Settings {
        Settings {
            mode: self.mode,
            ignored_slice_managers: self.ignored_slice_managers(),
            ..self.opt_in.within(self.plans.settings())
        }
    }

    /// How to read and sum up nodes.
    pub fn store_rules(&self) -> StoreRules {
        let labels = self.excluded_node_labels.iter();
        // An empty list is one empty text.
        let labels = labels.filter(|label| !label.is_empty());
        StoreRules {
            nodes: NodeRules {
                excluded_labels: labels.cloned().collect(),
                selector: self.capacity_node_selector.clone(),
                capacity: CapacityRules {
                    measure: self.capacity,
                    tolerance: self.node_info_tolerance,
                },
                grace: self.node_grace,
                grace_of_loss: self.node_grace,
            },
            ..self.plans.store_rules()
        }
    }
}
