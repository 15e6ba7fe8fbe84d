//! What an object's kind makes of it.

/// What an object is here.
#[derive(Debug, Clone, Copy)]
pub(super) enum KindRole {
    Node,
    Namespace,
    Service,
    Slice,
    List,
    Other,
}

impl KindRole {
    pub(super) fn of(kind: &str, version: Option<&str>) -> Result<Self, String> {
        // Others have kinds of these names too, such as serving.knative.dev/v1 Services.
        let is = |ours: &str| version.is_none_or(|version| version == ours);
        Ok(match kind {
            "" => return Err(NO_KIND.to_owned()),
            "Node" if is("v1") => Self::Node,
            "Namespace" if is("v1") => Self::Namespace,
            "Service" if is("v1") => Self::Service,
            "EndpointSlice" if is("discovery.k8s.io/v1") => Self::Slice,
            list if list.ends_with("List") => Self::List,
            _ => Self::Other,
        })
    }
}

pub(super) const NO_OBJECT: &str = "it is no Kubernetes object";
pub(super) const NO_KIND: &str = "it has no kind, so it is no Kubernetes object";

pub(super) fn without_items(kind: &str) -> String {
    format!("a {kind} without a list of items")
}

pub(super) fn kind_of_items(list: &str) -> &str {
    list.strip_suffix("List").unwrap_or_default()
}
