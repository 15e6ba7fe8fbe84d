//! Clusters after public reports, in `tests/cases`, and what `explain` says of them.

use zonewise::cluster::files::Objects;
use zonewise::cluster::node::NodeRules;
use zonewise::cluster::selector::NodeSelector;
use zonewise::cluster::store::StoreRules;
use zonewise::planner::heuristic::Heuristic;
use zonewise::report::{Filter, PortsReport, RemedyReport, Report, ServiceReport};
use zonewise::settings::Settings;

use crate::decisions::annotate;

struct Case {
    objects: Objects,
    settings: Settings,
    rules: StoreRules,
}

impl Case {
    fn read(name: &str) -> Self {
        let file = format!("tests/cases/{name}.yaml");
        Self {
            objects: Objects::read(&[file]).expect("the case can be read"),
            settings: Settings::default(),
            rules: StoreRules::default(),
        }
    }

    /// With the annotation on every Service.
    fn with_heuristic(mut self, heuristic: Heuristic) -> Self {
        for service in &mut self.objects.services {
            annotate(
                service,
                "service.kubernetes.io/topology-mode",
                heuristic.annotation(),
            );
        }
        self
    }

    fn report(&self) -> Report {
        let cluster = self
            .objects
            .load(self.rules.clone(), crate::now())
            .cluster();
        Report::new(&cluster, &self.settings, &self.objects, &Filter::default())
    }

    /// What is reported of the only Service.
    fn service(&self) -> ServiceReport {
        let [service] =
            <[ServiceReport; 1]>::try_from(self.report().services).expect("one Service");
        service
    }
}

fn verdict(service: &ServiceReport) -> String {
    format!(
        "{} {}",
        service.decision,
        service.reason.unwrap_or_default()
    )
}

/// In percent.
fn rounded(part: Option<f64>) -> i64 {
    #[expect(clippy::cast_possible_truncation)]
    let percent = (part.expect("it is known") * 100.0).round() as i64;
    percent
}

#[test]
fn figures_are_of_each_port_where_ports_have_different_endpoints() {
    let service = Case::read("two-apps-overlap").service();
    assert_eq!(verdict(&service), "Hints ");
    let figures = |ports: &PortsReport| {
        let figures = (rounded(ports.in_zone_share), rounded(ports.worst_overload));
        (ports.ports.clone(), ports.ready_endpoints, figures)
    };
    let figures: Vec<_> = service.ports.iter().map(figures).collect();
    let port = |name: &str| vec![name.to_owned()];
    assert_eq!(figures, [(port("a"), 3, (100, 0)), (port("b"), 2, (67, 0))]);
    assert_eq!(
        service.message,
        "Behind port a, 3 ready endpoints serve 3 zones by their CPU, each its own; load is even. Behind port b, 2 ready \
         endpoints serve 3 zones by their CPU, each its own; load is even."
    );
    assert_eq!(
        (
            rounded(service.in_zone_share),
            rounded(service.worst_overload)
        ),
        (67, 0)
    );
    assert!(
        service.zones.is_empty(),
        "those of all ports together mean nothing"
    );
    let uses_all: Vec<&str> = service.ports[1]
        .zones
        .iter()
        .map(|zone| zone.kube_proxy)
        .collect();
    assert_eq!(uses_all, ["PreferSameZone", "PreferSameZone", "Cluster"]);
}

#[test]
fn a_remedy_holds_behind_every_port() {
    let service = Case::read("two-apps-auto").service();
    assert_eq!(verdict(&service), "Strip InsufficientNumberOfEndpoints");
    assert_eq!(
        service.message,
        "2 ready endpoints behind port \"b\" for 3 zones, and each zone needs one of its own."
    );
    let [
        RemedyReport::Endpoints { behind, .. },
        RemedyReport::Overlap { .. },
    ] = &service.remedies[..]
    else {
        panic!("{:?}", service.remedies);
    };
    let [behind] = &behind[..] else {
        panic!("{behind:?}");
    };
    let zones: Vec<(&str, u32)> = behind
        .zones
        .iter()
        .map(|(zone, more)| (&**zone, *more))
        .collect();
    assert_eq!(
        (&behind.ports[..], &zones[..]),
        (&["b".to_owned()][..], &[("eu-1c", 1)][..])
    );
}

#[test]
fn the_remedy_for_a_missing_zone_fits_its_cause() {
    let mirrored = Case::read("mirrored-without-zone");
    for heuristic in Heuristic::ALL {
        let service = Case::read("mirrored-without-zone")
            .with_heuristic(heuristic)
            .service();
        let reason = if heuristic == Heuristic::Overlap {
            "Strip NoBetterThanNone"
        } else {
            "Strip NoZoneSpecified"
        };
        assert_eq!(verdict(&service), reason);
        assert!(
            service
                .message
                .ends_with("mirrored from an Endpoints object, so set nodeName there."),
            "{}",
            service.message
        );
        assert!(service.remedies.is_empty(), "{:?}", service.remedies);
    }
    assert_eq!(mirrored.objects.services.len(), 1);
    let mut unlabelled = Case::read("pod-on-unlabelled-node").with_heuristic(Heuristic::Auto);
    unlabelled.rules.nodes = NodeRules {
        selector: NodeSelector::parse("topology.kubernetes.io/zone").ok(),
        ..NodeRules::default()
    };
    let service = unlabelled.service();
    assert_eq!(verdict(&service), "Strip NoZoneSpecified");
    assert!(
        service
            .message
            .contains("Node new-1 has no label topology.kubernetes.io/zone, so label it"),
        "{}",
        service.message
    );
    let by_overlap = unlabelled.with_heuristic(Heuristic::Overlap).service();
    assert_eq!(verdict(&by_overlap), "Hints ");
}

#[test]
fn one_endpoint_without_a_zone_stops_auto_and_not_overlap() {
    let auto = Case::read("one-endpoint-without-zone").service();
    assert_eq!(verdict(&auto), "Strip NoZoneSpecified");
    let manager = "endpointslice-mesh-controller.cilium.io";
    assert!(
        auto.message
            .contains(&format!("--ignored-slice-managers={manager}")),
        "{}",
        auto.message
    );
    assert!(
        matches!(&auto.remedies[..], [RemedyReport::Overlap { .. }]),
        "{:?}",
        auto.remedies
    );
    let overlap = Case::read("one-endpoint-without-zone")
        .with_heuristic(Heuristic::Overlap)
        .service();
    assert_eq!(verdict(&overlap), "Hints ");
    let endpoints = || overlap.slices.iter().flat_map(|slice| &slice.endpoints);
    assert_eq!(
        (
            endpoints().count(),
            endpoints().filter(|e| e.hints.is_empty()).count()
        ),
        (13, 0)
    );
    assert!(
        overlap.notes[0].starts_with("Cilium follows no hint"),
        "{:?}",
        overlap.notes
    );
    let mut ignoring = Case::read("one-endpoint-without-zone");
    ignoring.settings.ignored_slice_managers = vec![manager.to_owned()];
    let ignoring = ignoring.service();
    assert_eq!(
        (&*verdict(&ignoring), ignoring.ready_endpoints),
        ("Hints ", 12)
    );
    assert!(
        ignoring.notes[0]
            .starts_with("These figures are for data planes that do not read the 1 slice of"),
        "{:?}",
        ignoring.notes
    );
    assert_eq!(
        rounded(ignoring.now.in_zone_share),
        31,
        "kube-proxy reads all slices"
    );
}

#[test]
fn a_slice_without_the_label_is_not_said_to_have_one() {
    let report = Case::read("slice-without-service-name").report();
    let orphan = &report.services[0];
    assert_eq!(verdict(orphan), "Untouched UnknownService");
    assert_eq!(
        orphan.message,
        "The slice has no label kubernetes.io/service-name, so it belongs to no Service."
    );
}

#[test]
fn cordoned_nodes_count_and_are_named() {
    let report = Case::read("cordoned-zone").report();
    assert_eq!(
        report.capacity.notes,
        [
            "The CPU of cordoned nodes counts: n-a1, n-a2. To keep no endpoints for eu-1a, annotate Services with \
          zonewise.dev/zone-weights: \"eu-1b=1,eu-1c=1\"."
        ]
    );
    let kept = report.services[0].zones.iter().map(|zone| zone.hinted);
    assert_eq!(kept.collect::<Vec<_>>(), [2, 2, 2]);
    let mut shifted = Case::read("cordoned-zone");
    annotate(
        &mut shifted.objects.services[0],
        "zonewise.dev/zone-weights",
        "eu-1b=1,eu-1c=1",
    );
    let shifted = shifted.service();
    let hinted: Vec<usize> = shifted.zones.iter().map(|zone| zone.hinted).collect();
    assert_eq!(
        (&*verdict(&shifted), &hinted[..]),
        ("Hints ", &[0, 3, 3][..])
    );
}

#[test]
fn an_endpoint_that_is_not_ready_keeps_a_hint() {
    let service = Case::read("unready-endpoint").service();
    let endpoints = || service.slices.iter().flat_map(|slice| &slice.endpoints);
    let named: Vec<&String> = endpoints()
        .filter(|e| e.ready)
        .flat_map(|e| &e.hints)
        .collect();
    let unready: Vec<_> = endpoints().filter(|e| !e.ready).collect();
    assert_eq!(unready.len(), 2);
    assert!(unready.iter().all(|endpoint| !endpoint.hints.is_empty()));
    let mut zones = unready.iter().flat_map(|endpoint| &endpoint.hints);
    assert!(zones.all(|zone| named.contains(&zone)));
}
