//! What is stored of what a leader posts.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use zonewise::controller::events::{CONTROLLER, State};
use zonewise::planner::capacity::{InsufficientNode, Missing};

use super::Cluster;
use crate::support::leader::{disabled, set};
use crate::support::objects::from_json;
use crate::support::wait::eventually;

pub async fn describe_shows_transitions(cluster: &Cluster) {
    cluster.namespace("shown").await;
    let web = cluster.service("shown", "web").await;
    let leader = cluster.leader();
    leader.sees(&web, &State::Enabled, "12 ready endpoints are hinted.");
    leader.counted([1, 0, 0, 0]).await;
    let node = InsufficientNode {
        name: "n7".into(),
        missing: vec![Missing::Zone],
    };
    leader.events.observe_nodes(&[node], false);
    leader.sees(
        &web,
        &disabled("InsufficientNodeInfo"),
        "Node n7 has no zone.",
    );
    leader.counted([3, 0, 0, 0]).await;
    let enabled = "TopologyAwareHintsEnabled";
    let enabled = [
        "Normal",
        enabled,
        CONTROLLER,
        "IPv4: 12 ready endpoints are hinted.",
    ];
    let disabled = "TopologyAwareHintsDisabled";
    let disabled = [
        "Warning",
        disabled,
        CONTROLLER,
        "IPv4: Node n7 has no zone.",
    ];
    assert_eq!(cluster.described_service(&web).await, [enabled, disabled]);
    let sentence = "Node n7 has no label topology.kubernetes.io/zone; zones' shares of capacity can't be known without it.";
    assert_eq!(
        cluster.described(["Node", "", "n7", "n7"]).await,
        [["Warning", "InsufficientNodeInfo", CONTROLLER, sentence]]
    );
}

pub async fn a_second_replica_finds_events_that_exist(cluster: &Cluster) {
    cluster.namespace("twice").await;
    let (web, other) = (
        cluster.service("twice", "web").await,
        cluster.service("twice", "other").await,
    );
    let (first, second) = (cluster.leader(), cluster.leader());
    // So that neither learns from the list what the other posts.
    first.sees(&other, &disabled("A"), "x");
    first.counted([1, 0, 0, 0]).await;
    second.sees(&other, &disabled("B"), "x");
    second.counted([1, 0, 0, 0]).await;
    let states = [State::Enabled, disabled("A"), State::Enabled];
    for (told, state) in (1..).zip(&states) {
        first.sees(&web, state, "x");
        first.counted([1 + told, 0, 0, 0]).await;
        second.sees(&web, state, "x");
        second.counted([1, told, 0, 0]).await;
    }
    assert_eq!(cluster.described_service(&web).await.len(), states.len());
}

pub async fn a_restart_posts_nothing_and_goes_on(cluster: &Cluster) {
    cluster.namespace("restart").await;
    let web = cluster.service("restart", "web").await;
    let rounds = [
        (1, disabled("A")),
        (0, disabled("A")),
        (1, State::Enabled),
        (0, State::Enabled),
        (1, disabled("A")),
    ];
    for (round, (posted, state)) in rounds.into_iter().enumerate() {
        let leader = cluster.leader();
        leader.sees(&web, &state, "x");
        // Services come in the order of their names: when this is posted, all that there was to say of web was said.
        let last = set("restart", "zz", &format!("round-{round}"));
        leader.sees(&last, &State::Enabled, "x");
        let about_last = |event: &Event| {
            let object = event.regarding.as_ref();
            object.is_some_and(|object| object.uid.as_deref() == Some(&last.uid))
        };
        eventually("the last is posted", async || {
            let events = cluster.events("restart").await;
            let found = events.iter().any(about_last);
            found.then_some(()).ok_or_else(|| format!("{events:?}"))
        })
        .await;
        leader.counted([posted + 1, 0, 0, 0]).await;
    }
    let told = cluster.described_service(&web).await;
    let kinds: Vec<&str> = told.iter().map(|event| event[0].as_str()).collect();
    assert_eq!(kinds, ["Warning", "Normal", "Warning"]);
}

pub async fn the_longest_names_and_notes_are_stored(cluster: &Cluster) {
    cluster.namespace("longest").await;
    let web = cluster.service("longest", &"a".repeat(63)).await;
    let label = "n".repeat(61);
    let node = [&*label, &label, &label, &"n".repeat(67)[..63], "nnn"].join(".");
    assert_eq!(node.len(), 253);
    let leader = cluster.leader();
    let lacks = InsufficientNode {
        name: node.as_str().into(),
        missing: vec![Missing::ReadableCpu("9".repeat(2000).into())],
    };
    leader.events.observe_nodes(&[lacks], false);
    leader.sees(&web, &disabled("A"), &"é".repeat(2000));
    leader.counted([2, 0, 0, 0]).await;
    let [event] = &cluster.events("longest").await[..] else {
        panic!("one Event was posted")
    };
    let told = event.note.as_deref().unwrap_or_default();
    assert_eq!((told.len(), told.ends_with("é…")), (1023, true));
    let described = cluster.described(["Node", "", &node, &node]).await;
    assert_eq!(described[0][3].len(), 1024);
}

pub async fn namespaces_that_go_are_left_out(cluster: &Cluster) {
    cluster.namespace("going").await;
    let web = cluster.service("going", "web").await;
    let namespaces: Api<Namespace> = Api::all(cluster.admin.clone());
    let keeper = json!({"metadata": {"name": "hold", "finalizers": ["zonewise.test/hold"]}});
    let config_maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(cluster.admin.clone(), "going");
    let created = config_maps
        .create(&PostParams::default(), &from_json(keeper))
        .await;
    created.expect("something that keeps the namespace from going");
    let deleted = namespaces.delete("going", &DeleteParams::default()).await;
    deleted.expect("the namespace is deleted");
    let leader = cluster.leader();
    leader.sees(&web, &State::Enabled, "x");
    leader.counted([0, 0, 1, 0]).await;
    leader.sees(&set("no-such-namespace", "web", "u"), &State::Enabled, "x");
    leader.counted([0, 0, 2, 0]).await;
}
