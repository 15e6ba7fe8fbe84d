//! What a Service says, for opt-in.

use super::annotations::Annotations;
use super::loose::{Loose, Pairs};
use super::wire::{Service, Wire};

const SERVICE_PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// `spec.trafficDistribution`, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficDistribution {
    /// `PreferSameZone` or its older name `PreferClose`.
    SameZone,
    /// `PreferSameNode`.
    SameNode,
}

/// Why kube-proxy does not use hints for a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintsUnused {
    /// It has no cluster IP: headless, or of type ExternalName.
    Headless,
    /// It belongs to another proxy.
    OtherServiceProxy,
    /// Its internal traffic stays on the node, and it has no other.
    InternalTrafficPolicyLocal,
}

/// A Service, as far as opt-in is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Its uid, by which its events are found.
    pub uid: Box<str>,
    /// What its annotations ask for.
    pub annotations: Annotations,
    /// Its traffic distribution.
    pub traffic_distribution: Option<TrafficDistribution>,
    /// Set where hints would do nothing.
    pub hints_unused: Option<HintsUnused>,
    /// Set where a field has an unexpected type: nothing can be decided then.
    pub odd_field: Option<&'static str>,
}

impl ServiceRecord {
    /// Reads a Service.
    #[must_use]
    pub fn read(wire: &Service<Box<str>>) -> Self {
        let spec = wire.spec.get();
        let uid = wire.metadata().and_then(|m| m.uid.text());
        Self {
            uid: uid.unwrap_or_default().into(),
            annotations: Annotations::read(wire.metadata()),
            traffic_distribution: match spec.and_then(|s| s.traffic_distribution.text()) {
                Some("PreferSameZone" | "PreferClose") => Some(TrafficDistribution::SameZone),
                Some("PreferSameNode") => Some(TrafficDistribution::SameNode),
                _ => None,
            },
            hints_unused: read_hints_unused(wire),
            odd_field: wire.odd_field(),
        }
    }
}

fn read_hints_unused(wire: &Service<Box<str>>) -> Option<HintsUnused> {
    let spec = wire.spec.get()?;
    if spec.cluster_ip.text() == Some("None") || spec.kind.text() == Some("ExternalName") {
        return Some(HintsUnused::Headless);
    }
    if wire
        .metadata()
        .and_then(|m| m.labels.get())
        .is_some_and(|labels| labels.has(SERVICE_PROXY_NAME))
    {
        return Some(HintsUnused::OtherServiceProxy);
    }
    let local = spec.internal_traffic_policy.text() == Some("Local");
    (local && !is_open_from_outside(wire)).then_some(HintsUnused::InternalTrafficPolicyLocal)
}

/// Whether traffic can come by a node port, a load balancer or an external IP, for which kube-proxy uses hints whatever
/// the internal traffic policy.
fn is_open_from_outside(wire: &Service<Box<str>>) -> bool {
    let Some(spec) = wire.spec.get() else {
        return false;
    };
    let node_port = spec.ports.items().iter().any(|port| {
        port.get()
            .and_then(|p| p.node_port.get())
            .is_some_and(|&number| number != 0)
    });
    let load_balancer = wire
        .status
        .get()
        .and_then(|status| status.load_balancer.get());
    // As kube-proxy takes it: a name is not for it, and an address of mode Proxy is another's.
    let is_virtual_ip = |ingress: &Loose<Pairs<Box<str>>>| {
        ingress.get().is_some_and(|ingress| {
            ingress.get("ip").is_some_and(|ip| !ip.is_empty())
                && ingress.get("ipMode").is_none_or(|mode| mode == "VIP")
        })
    };
    let ingress = load_balancer.is_some_and(|lb| lb.ingress.items().iter().any(is_virtual_ip));
    node_port || ingress || !spec.external_ips.items().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> ServiceRecord {
        ServiceRecord::read(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn local_traffic_uses_hints_only_when_it_can_come_from_outside() {
        let inside = read(
            r#"{"spec":{"clusterIP":"10.0.0.1","internalTrafficPolicy":"Local","ports":[{}]}}"#,
        );
        assert_eq!(
            inside.hints_unused,
            Some(HintsUnused::InternalTrafficPolicyLocal)
        );
        let outside =
            read(r#"{"spec":{"internalTrafficPolicy":"Local","ports":[{"nodePort":30000}]}}"#);
        assert_eq!(outside.hints_unused, None);
        let external =
            read(r#"{"spec":{"internalTrafficPolicy":"Local","externalIPs":["192.0.2.1"]}}"#);
        assert_eq!(external.hints_unused, None);
        let ingress = read(
            r#"{"spec":{"internalTrafficPolicy":"Local"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}"#,
        );
        assert_eq!(ingress.hints_unused, None);
        let by_name = read(
            r#"{"spec":{"internalTrafficPolicy":"Local"},"status":{"loadBalancer":{"ingress":[{"hostname":"lb"}]}}}"#,
        );
        assert_eq!(
            by_name.hints_unused,
            Some(HintsUnused::InternalTrafficPolicyLocal)
        );
    }

    #[test]
    fn headless_and_foreign_services_do_not_use_hints() {
        for spec in [r#"{"clusterIP":"None"}"#, r#"{"type":"ExternalName"}"#] {
            let service = read(&format!(r#"{{"spec":{spec}}}"#));
            assert_eq!(service.hints_unused, Some(HintsUnused::Headless), "{spec}");
        }
        let foreign =
            format!(r#"{{"metadata":{{"labels":{{"{SERVICE_PROXY_NAME}":"x"}}}},"spec":{{}}}}"#);
        assert_eq!(
            read(&foreign).hints_unused,
            Some(HintsUnused::OtherServiceProxy)
        );
    }
}
