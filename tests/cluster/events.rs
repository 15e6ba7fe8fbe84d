//! Events as the API server stores them, posted with no permission but those that the documentation states.

mod stored;

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use k8s_openapi::api::core::v1::{Event as CoreEvent, Namespace, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use zonewise::controller::events::{CONTROLLER, ServiceSet};

use crate::support::leader::{Leader, quick, set};
use crate::support::objects::from_json;
use crate::support::plane::Plane;

struct Cluster {
    admin: Client,
    zonewise: Client,
    name: String,
    _plane: Arc<Plane>,
}

impl Cluster {
    /// The control plane that scenes share, for a user of the scene's name.
    async fn start(name: &str) -> Self {
        let plane = Plane::shared().await;
        let user = format!("system:serviceaccount:zonewise:{name}");
        let config = plane.config_as(&user, &[]).await;
        let cluster = Self {
            admin: plane.client.clone(),
            zonewise: Client::try_from(config).expect("the kubeconfig makes a client"),
            name: name.to_owned(),
            _plane: plane,
        };
        cluster.permit(&user).await;
        cluster
    }

    async fn permit(&self, user: &str) {
        let role: ClusterRole = from_json(json!({
            "metadata": {"name": self.name},
            "rules": [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "list"]}],
        }));
        let binding: ClusterRoleBinding = from_json(json!({
            "metadata": {"name": self.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        }));
        let parameters = PostParams::default();
        let roles = Api::all(self.admin.clone());
        roles.create(&parameters, &role).await.expect("a role");
        let bindings = Api::all(self.admin.clone());
        let bound = bindings.create(&parameters, &binding).await;
        bound.expect("a binding");
    }

    async fn namespace(&self, name: &str) {
        let namespace: Namespace = from_json(json!({"metadata": {"name": name}}));
        let namespaces = Api::all(self.admin.clone());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.expect("a namespace");
    }

    async fn service(&self, namespace: &str, name: &str) -> ServiceSet {
        let service: Service =
            from_json(json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}));
        let services: Api<Service> = Api::namespaced(self.admin.clone(), namespace);
        let created = services.create(&PostParams::default(), &service).await;
        let uid = created.expect("a Service").metadata.uid;
        set(namespace, name, &uid.expect("a stored object has a uid"))
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

scenes![play:
    stored::describe_shows_transitions,
    stored::a_second_replica_finds_events_that_exist,
    stored::a_restart_posts_nothing_and_goes_on,
    stored::the_longest_names_and_notes_are_stored,
    stored::namespaces_that_go_are_left_out,
];

fn play(name: &str, scene: for<'a> fn(&'a Cluster) -> LocalBoxFuture<'a, ()>) {
    crate::run(async { scene(&Cluster::start(&crate::namespace_of(name)).await).await });
}
