//! Ready endpoints whose zone is not known, why that is, and what to do about it.

use std::fmt::Write as _;

use super::capacity::ZONE_LABEL;
use crate::words::and_more;

/// Ready endpoints without a known zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zoneless {
    /// The first of them by address; at least one.
    pub first: Box<[Box<str>]>,
    /// How many more there are.
    pub more: usize,
    /// Why, for the first ones, each cause once; at least one.
    pub causes: Box<[Cause]>,
}

/// Why the zone of an endpoint is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Its Node has no zone label.
    UnlabelledNode {
        /// The Node's name.
        node: Box<str>,
    },
    /// It names a Node that does not exist.
    UnknownNode,
    /// Its EndpointSlice is mirrored from an Endpoints object, which names no Node.
    Mirrored,
    /// Its EndpointSlice names neither zone nor Node.
    Slice {
        /// The slice's name, empty while it is being created.
        slice: Box<str>,
        /// What the slice's label says of who manages it.
        manager: Option<Box<str>>,
    },
}

impl Zoneless {
    /// Who they are and why, with what to do about each cause: the sentence's beginning names `of_all` of them.
    #[must_use]
    pub fn message(&self) -> String {
        let (endpoints, have) = match self.first.len() + self.more {
            1 => ("Endpoint", "has"),
            _ => ("Endpoints", "have"),
        };
        let (first, more) = (self.first.join(", "), and_more(self.more));
        let mut text = format!("{endpoints} {first}{more} {have} no known zone");
        for (place, cause) in self.causes.iter().enumerate() {
            let separator = if place == 0 { ": " } else { "; " };
            let _ = write!(text, "{separator}{}", cause.remedy());
        }
        text + "."
    }
}

impl Cause {
    fn remedy(&self) -> String {
        match self {
            Self::UnlabelledNode { node } => {
                format!("Node {node} has no label {ZONE_LABEL}, so label it")
            }
            Self::UnknownNode => "nodeName names a Node that does not exist".to_owned(),
            Self::Mirrored => {
                "the EndpointSlice is mirrored from an Endpoints object, so set nodeName there"
                    .to_owned()
            }
            Self::Slice { slice, manager } => {
                let gap = if slice.is_empty() { "" } else { " " };
                match manager {
                    None => format!(
                        "EndpointSlice{gap}{slice} has neither zone nor nodeName, so set zone for each endpoint"
                    ),
                    Some(manager) => format!(
                        "EndpointSlice{gap}{slice}, which {manager} manages, has neither zone nor nodeName; for a data \
                         plane that does not read such slices, start zonewise with --ignored-slice-managers={manager}"
                    ),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(endpoints: usize, causes: &[Cause]) -> String {
        let addresses = (1..=endpoints.min(3)).map(|i| format!("10.0.0.{i}").into());
        Zoneless {
            first: addresses.collect(),
            more: endpoints.saturating_sub(3),
            causes: causes.into(),
        }
        .message()
    }

    #[test]
    fn endpoints_without_a_zone_are_one_or_several() {
        assert_eq!(
            message(1, &[Cause::UnknownNode]),
            "Endpoint 10.0.0.1 has no known zone: nodeName names a Node that does not exist."
        );
        assert_eq!(
            message(5, &[Cause::Mirrored]),
            "Endpoints 10.0.0.1, 10.0.0.2, 10.0.0.3, +2 more have no known zone: the EndpointSlice is mirrored from an \
             Endpoints object, so set nodeName there."
        );
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let node = Cause::UnlabelledNode { node: "n1".into() };
        let slice = Cause::Slice {
            slice: "web-1".into(),
            manager: None,
        };
        let text = message(2, &[node, slice]);
        assert!(
            text.ends_with(
                "Node n1 has no label topology.kubernetes.io/zone, so label it; EndpointSlice web-1 has neither zone nor \
                 nodeName, so set zone for each endpoint."
            ),
            "{text}"
        );
        let managed = Cause::Slice {
            slice: "".into(),
            manager: Some("mesh".into()),
        };
        let text = message(1, &[managed]);
        assert!(
            text.ends_with("--ignored-slice-managers=mesh.")
                && text.contains("EndpointSlice, which mesh manages"),
            "{text}"
        );
    }
}
