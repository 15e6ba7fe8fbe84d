//! A rolling update under Kubernetes' usual client limits, with zonewise and without.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::ledger::Ledger;
use super::stage::{Stage, number};
use crate::support::audit::Write;
use crate::support::control_plane::ClientLimits;
use crate::support::objects::{deployment, mode, service, traffic};
use crate::support::slices::{describe, endpoints, hinted, is_ready, ready_count};
use crate::support::wait::within;
use crate::support::world::say;

/// What a rolling update cost.
struct Cost {
    requests: usize,
    conflicts: usize,
    stored: usize,
    failures: i32,
    slices: usize,
    took: Duration,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            requests,
            conflicts,
            stored,
            failures,
            slices,
            took,
        } = self;
        write!(
            f,
            "{took:.1?}, {requests} requests of the EndpointSlice controller, {conflicts} conflicts, \
             {failures} FailedToUpdateEndpointSlices, {stored} versions stored of {slices} slices"
        )
    }
}

/// What asks for hints, and how fast the controllers may be.
#[derive(Debug, Clone, Copy)]
struct Way {
    asked_by: &'static str,
    limits: ClientLimits,
    replicas: u32,
}

pub async fn a_rollout_is_left_alone() {
    if !crate::is_full_size() {
        return is_left_alone_with("Auto", ClientLimits::Usual, 120).await;
    }
    for asked_by in ["Auto", "PreferSameZone"] {
        for limits in [ClientLimits::Usual, ClientLimits::Raised] {
            is_left_alone_with(asked_by, limits, 200).await;
        }
    }
}

async fn is_left_alone_with(asked_by: &'static str, limits: ClientLimits, replicas: u32) {
    let way = Way {
        asked_by,
        limits,
        replicas,
    };
    let (without, with) = tokio::join!(roll(way, false), roll(way, true));
    say(&format!("         {asked_by}, client limits {limits:?}"));
    say(&format!("         without zonewise: {without}"));
    say(&format!("         with zonewise: {with}"));
    assert!(with.conflicts <= without.conflicts);
    assert!(with.failures <= without.failures);
    // How often the controller writes depends on how the machine was loaded; that each write costs no more does not.
    let more = with.requests.saturating_sub(without.requests);
    assert!(with.stored <= without.stored + more + with.slices);
}

async fn roll(way: Way, with_zonewise: bool) -> Cost {
    let replicas = way.replicas;
    let mut stage = Stage::start_with([4; 3], way.limits).await;
    let replica = stage.replica("z-1");
    if with_zonewise {
        stage.enter(&replica).await;
        stage.leader(&[&replica]).await;
    }
    let asking = match way.asked_by {
        "Auto" => mode("Auto"),
        distribution => traffic(distribution),
    };
    stage.create_services(&[service("web", &[asking])]).await;
    let deployments: Api<Deployment> = Api::default_namespaced(stage.client.clone());
    let object = deployment("web", replicas);
    let created = deployments.create(&PostParams::default(), &object).await;
    created.expect("the Deployment is created");
    stage.has_ready("web", replicas as usize).await;

    let (ledger, mark) = (Ledger::open(&stage.client).await, stage.audit().writes());
    let started = Instant::now();
    let update = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    let patch = Patch::Merge(&update);
    let parameters = PatchParams::default();
    let patched = deployments.patch("web", &parameters, &patch).await;
    patched.expect("the Deployment is patched");
    is_rolled_out(&deployments, replicas).await;
    has_its_pods(&stage).await;
    let took = started.elapsed();
    if with_zonewise {
        stage.is_fresh(&["web".to_owned()], [16; 3]).await;
        is_at_rest(&replica).await;
    }
    let slices = stage.slices("web").await;
    assert_eq!(ready_count(&slices), replicas as usize);
    if with_zonewise {
        assert!(hinted(&slices).is_ok(), "{}", describe(&slices));
        assert_eq!(stage.complaints(), Vec::<String>::new());
        assert_eq!(stage.webhook_complaints().await, Vec::<String>::new());
    }
    let writes = stage.audit().writes_from(mark);
    let by_controller = writes
        .iter()
        .filter(|w| w.by() == "endpointslice-controller");
    let codes: Vec<u16> = by_controller.map(Write::code).collect();
    Cost {
        requests: codes.len(),
        conflicts: codes.iter().filter(|code| **code == 409).count(),
        stored: ledger.mark(),
        failures: failures(&stage).await,
        slices: slices.len(),
        took,
    }
}

async fn is_rolled_out(deployments: &Api<Deployment>, replicas: u32) {
    let limit = Duration::from_mins(2);
    within(limit, "the Deployment is rolled out", async || {
        let deployment = deployments.get("web").await.map_err(|e| e.to_string())?;
        let status = deployment.status.unwrap_or_default();
        if status.observed_generation != deployment.metadata.generation {
            return Err("its controller has not looked yet".to_owned());
        }
        let all = i32::try_from(replicas).ok();
        let counts = [
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
        ];
        counts
            .iter()
            .all(|count| *count == all)
            .then_some(())
            .ok_or_else(|| format!("{counts:?}"))
    })
    .await;
}

/// Waits until the slices tell of the pods that there are, all ready.
async fn has_its_pods(stage: &Stage) {
    let pods: Api<Pod> = Api::default_namespaced(stage.client.clone());
    let limit = Duration::from_mins(2);
    within(limit, "the slices tell of all pods", async || {
        let pods = pods.list(&ListParams::default()).await;
        let pods = pods.map_err(|error| error.to_string())?.items;
        let names: BTreeSet<_> = pods.into_iter().map(|pod| pod.metadata.name).collect();
        let slices = stage.slices("web").await;
        let ready = endpoints(&slices).filter(|e| is_ready(e));
        let told: BTreeSet<_> = ready
            .map(|endpoint| endpoint.target_ref.as_ref()?.name.clone())
            .collect();
        (names == told)
            .then_some(())
            .ok_or_else(|| format!("{} pods, {} ready endpoints", names.len(), told.len()))
    })
    .await;
}

async fn is_at_rest(replica: &crate::support::replica::Replica) {
    super::stage::metric_is(replica, "zonewise_slices_drifted", &[], 0.0).await;
    let patches = number(replica, "zonewise_drift_patches_total", &[]);
    say(&format!("         {patches} drift patches in all"));
}

/// What the EndpointSlice controller tells of updates that failed.
async fn failures(stage: &Stage) -> i32 {
    let events: Api<Event> = Api::all(stage.client.clone());
    let failed = ListParams::default().fields("reason=FailedToUpdateEndpointSlices");
    let events = events.list(&failed).await.expect("events are listed");
    let counts = events.items.iter();
    counts.map(|event| event.count.unwrap_or(1)).sum()
}
