//! What a real API server stores, asked as zonewise would be: with no permission but those that it says it needs.

use k8s_openapi::api::core::v1::{Event as CoreEvent, Namespace, Node, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zonewise::controller::events::{CONTROLLER, ServiceSet, State};
use zonewise::planner::capacity::{InsufficientNode, Missing};

use super::control_plane::ControlPlane;
use super::wait::eventually;
use super::{Leader, disabled, quick, set};

const USER: &str = "system:serviceaccount:zonewise:zonewise";

struct Cluster {
    admin: Client,
    zonewise: Client,
    _control_plane: ControlPlane,
}

impl Cluster {
    async fn start() -> Self {
        let control_plane = tokio::task::spawn_blocking(ControlPlane::start)
            .await
            .expect("the control plane starts");
        let kubeconfig = &control_plane.ready.kubeconfig;
        let cluster = Self {
            admin: client(kubeconfig, None).await,
            zonewise: client(kubeconfig, Some(USER)).await,
            _control_plane: control_plane,
        };
        cluster.permit().await;
        cluster
    }

    async fn permit(&self) {
        let role: ClusterRole = object(json!({
            "metadata": {"name": "zonewise-events"},
            "rules": [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "list"]}],
        }));
        let binding: ClusterRoleBinding = object(json!({
            "metadata": {"name": "zonewise-events"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "zonewise-events"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
        }));
        let parameters = PostParams::default();
        let roles = Api::all(self.admin.clone());
        roles.create(&parameters, &role).await.expect("a role");
        let bindings = Api::all(self.admin.clone());
        let bound = bindings.create(&parameters, &binding).await;
        bound.expect("a binding");
    }

    async fn namespace(&self, name: &str) {
        let namespace: Namespace = object(json!({"metadata": {"name": name}}));
        let namespaces = Api::all(self.admin.clone());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.expect("a namespace");
    }

    async fn service(&self, namespace: &str, name: &str) -> ServiceSet {
        let service: Service =
            object(json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}));
        let services: Api<Service> = Api::namespaced(self.admin.clone(), namespace);
        let created = services.create(&PostParams::default(), &service).await;
        let uid = created.expect("a Service").metadata.uid;
        set(namespace, name, &uid.expect("a stored object has a uid"))
    }

    async fn node(&self, name: &str) {
        let node: Node = object(json!({"metadata": {"name": name}}));
        let nodes = Api::all(self.admin.clone());
        let created = nodes.create(&PostParams::default(), &node).await;
        created.expect("a node");
    }

    /// Type, reason, source and message of what `kubectl describe` shows, found as it does.
    async fn described(&self, object: [&str; 4]) -> Vec<[String; 4]> {
        let [kind, namespace, name, uid] = object;
        let events: Api<CoreEvent> = match namespace {
            "" => Api::all(self.admin.clone()),
            namespace => Api::namespaced(self.admin.clone(), namespace),
        };
        let selector = format!(
            "involvedObject.name={name},involvedObject.namespace={namespace},involvedObject.kind={kind},\
             involvedObject.uid={uid}"
        );
        let found = events.list(&ListParams::default().fields(&selector)).await;
        let mut found = found.expect("Events are listed").items;
        found.retain(|event| event.reporting_component.as_deref() == Some(CONTROLLER));
        found.sort_by_key(|event| event.event_time.as_ref().map(|at| at.0));
        let shown = |event: CoreEvent| {
            [
                event.type_,
                event.reason,
                event.reporting_component,
                event.message,
            ]
            .map(Option::unwrap_or_default)
        };
        found.into_iter().map(shown).collect()
    }

    async fn described_service(&self, service: &ServiceSet) -> Vec<[String; 4]> {
        self.described(["Service", &service.namespace, &service.name, &service.uid])
            .await
    }

    /// All Events of ours in a namespace.
    async fn events(&self, namespace: &str) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), namespace);
        let ours = ListParams::default().fields(&format!("reportingController={CONTROLLER}"));
        events.list(&ours).await.expect("Events are listed").items
    }

    fn leader(&self) -> Leader {
        Leader::begin(self.zonewise.clone(), quick())
    }
}

async fn client(kubeconfig: &std::path::Path, user: Option<&str>) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.expect("the kubeconfig is complete");
    config.auth_info.impersonate = user.map(str::to_owned);
    Client::try_from(config).expect("the kubeconfig makes a client")
}

fn object<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).expect("an object of that kind")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_stores_each_transition_once() {
    let cluster = Cluster::start().await;
    describe_shows_transitions(&cluster).await;
    a_second_replica_is_told_that_they_exist(&cluster).await;
    a_restart_posts_nothing_and_goes_on(&cluster).await;
    the_longest_names_and_notes_are_stored(&cluster).await;
    namespaces_that_go_are_left_out(&cluster).await;
}

async fn describe_shows_transitions(cluster: &Cluster) {
    cluster.namespace("shown").await;
    let web = cluster.service("shown", "web").await;
    cluster.node("n7").await;
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

async fn a_second_replica_is_told_that_they_exist(cluster: &Cluster) {
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

async fn a_restart_posts_nothing_and_goes_on(cluster: &Cluster) {
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

async fn the_longest_names_and_notes_are_stored(cluster: &Cluster) {
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

async fn namespaces_that_go_are_left_out(cluster: &Cluster) {
    cluster.namespace("going").await;
    let web = cluster.service("going", "web").await;
    let namespaces: Api<Namespace> = Api::all(cluster.admin.clone());
    let keeper = json!({"metadata": {"name": "hold", "finalizers": ["zonewise.test/hold"]}});
    let config_maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(cluster.admin.clone(), "going");
    let created = config_maps
        .create(&PostParams::default(), &object(keeper))
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
