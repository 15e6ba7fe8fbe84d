//! A control plane with nodes, Services and replicas of zonewise that have the permissions they say they need.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::audit::AuditLog;
use crate::support::control_plane::ClientLimits;
use crate::support::endpoint::spread;
use crate::support::objects::{self, SERVICE_NAME, ZONES, from_json};
use crate::support::plane::Plane;
use crate::support::proxy::Proxy;
use crate::support::replica::{Certificates, Replica};
use crate::support::wait::{eventually, within};
use crate::support::webhook::{self, Registration};
use crate::support::world::is_ready;
use crate::support::{metrics, slices};

/// CPUs of a node.
const CPUS: u32 = 4;

const AT_ONCE: usize = 16;

/// All that runs. Its parts end in the order in which they stand here.
pub struct Stage {
    /// Stands for the webhook's Service, once there is a replica.
    proxy: Option<Proxy>,
    /// An administrator's client.
    pub client: Client,
    certificates: Certificates,
    plane: Arc<Plane>,
    dir: TempDir,
}

impl Stage {
    /// A control plane with so many nodes in each zone, and a Lease that is free.
    pub async fn start(nodes: [usize; 3]) -> Self {
        Self::start_with(nodes, ClientLimits::Usual).await
    }

    /// The same with these limits of Kubernetes' controllers.
    pub async fn start_with(nodes: [usize; 3], limits: ClientLimits) -> Self {
        let plane = Arc::new(Plane::start_with(limits, Vec::new()).await);
        let dir = TempDir::new().expect("a temporary folder can be made");
        let stage = Self {
            proxy: None,
            client: plane.client.clone(),
            certificates: Certificates::generate(dir.path()),
            plane,
            dir,
        };
        stage.permit().await;
        objects::free_lease(&stage.client, "default").await;
        stage.add_nodes(nodes, 0).await;
        stage
    }

    /// What docs/controller.md says that it needs, and nothing more; the Role in the namespace of the tests.
    async fn permit(&self) {
        let [role, mut own_role] = documented_permissions();
        own_role["metadata"]["namespace"] = Value::Null;
        let binding = |kind: &str| {
            json!({
                "metadata": {"name": "zonewise"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "zonewise"},
                "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io",
                    "name": "system:serviceaccounts:zonewise"}],
            })
        };
        let (parameters, client) = (PostParams::default(), || self.client.clone());
        let roles: Api<ClusterRole> = Api::all(client());
        let bindings: Api<ClusterRoleBinding> = Api::all(client());
        let own_roles: Api<Role> = Api::default_namespaced(client());
        let own_bindings: Api<RoleBinding> = Api::default_namespaced(client());
        let (role, own_role) = (from_json(role), from_json(own_role));
        let (bound, own_bound) = (
            from_json(binding("ClusterRole")),
            from_json(binding("Role")),
        );
        roles.create(&parameters, &role).await.expect("a role");
        bindings.create(&parameters, &bound).await.expect("bound");
        own_roles
            .create(&parameters, &own_role)
            .await
            .expect("a role");
        own_bindings
            .create(&parameters, &own_bound)
            .await
            .expect("bound");
    }

    /// The API server's audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.plane.audit
    }

    // === Replicas ===

    /// A replica that is known to the API server by its name; not yet started.
    pub fn replica(&self, name: &str) -> Replica {
        self.replica_by(name, None)
    }

    /// The same, that asks the API server on this port.
    pub fn replica_by(&self, name: &str, port: Option<u16>) -> Replica {
        let kubeconfig = self.kubeconfig(name, port);
        Replica::new(name, self.dir.path(), &kubeconfig, &self.certificates)
            .with("--replica-name", name)
            .with("--shutdown-delay-duration", "0s")
            // Tests of few nodes need none: every slice may be written at once.
            .with("--drift-pace", "50")
    }

    /// An administrator's that plays a service account.
    fn kubeconfig(&self, name: &str, port: Option<u16>) -> PathBuf {
        let path = self.dir.path().join(format!("{name}.kubeconfig"));
        let user = format!("system:serviceaccount:zonewise:{name}");
        self.plane.impersonate(&user, &path);
        if let Some(port) = port {
            let server = format!("https://127.0.0.1:{}", self.api_port());
            let text = std::fs::read_to_string(&path).expect("the kubeconfig can be read");
            let changed = text.replace(&server, &format!("https://127.0.0.1:{port}"));
            std::fs::write(&path, changed).expect("the kubeconfig can be written");
        }
        path
    }

    /// Where the API server listens, on loopback.
    pub fn api_port(&self) -> u16 {
        let kubeconfig = Kubeconfig::read_from(self.plane.kubeconfig());
        let cluster = kubeconfig.expect("a kubeconfig").clusters.remove(0).cluster;
        let server = cluster.and_then(|c| c.server).expect("a server");
        let port = server.rsplit(':').next().and_then(|port| port.parse().ok());
        port.expect("a port")
    }

    /// Starts a replica and has the API server call it.
    pub async fn enter(&mut self, replica: &Replica) {
        replica.start().await;
        if let Some(proxy) = &self.proxy {
            proxy.add(replica);
            return;
        }
        self.proxy = Some(Proxy::over(&[replica]));
        self.register_webhook().await;
        self.webhook_is_called().await;
    }

    /// Takes from the API server the way to a replica.
    pub fn lose(&self, replica: &Replica) {
        self.proxy.as_ref().expect("there is one").lose(replica);
    }

    /// Registers the webhook.
    pub async fn register_webhook(&self) {
        let port = self.proxy.as_ref().expect("there is a replica").port;
        Registration::everywhere("zonewise")
            .register(&self.client, port, &self.certificates.ca())
            .await;
    }

    /// The API server hears of the webhook a moment after it is registered.
    async fn webhook_is_called(&self) {
        let probe = objects::service("probe", &[objects::no_selector(), objects::mode("Auto")]);
        self.create_services(&[probe]).await;
        let endpoints = spread("10.9.0", [9, 9, 9]);
        let slice = objects::slice("probe", "probe", &endpoints, &[]);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let api = self.slices_api();
        eventually("the API server calls the webhook", async || {
            let stored = api.create(&dry, &slice).await;
            let stored = stored.map_err(|error| error.to_string())?;
            let all_hinted = stored.endpoints.iter().all(|e| e.hints.is_some());
            all_hinted.then_some(()).ok_or_else(|| "no hints".into())
        })
        .await;
    }

    /// The one of these that leads, once one does.
    pub async fn leader<'r>(&self, replicas: &[&'r Replica]) -> &'r Replica {
        eventually("one leads", async || {
            let leads = |replica: &&&Replica| number(replica, "zonewise_leader", &[]) > 0.5;
            let leader = replicas.iter().find(leads).copied();
            leader.ok_or_else(|| "nobody does".to_owned())
        })
        .await
    }

    // === Nodes ===

    /// Adds nodes with so many CPUs in each zone, numbered from `first` on, and waits until they are Ready.
    pub async fn add_nodes(&self, counts: [usize; 3], first: usize) {
        let mut added = Vec::new();
        for (place, zone) in ZONES.into_iter().enumerate() {
            for number in first..first + counts[place] {
                let network = format!("10.{}.{number}.0/24", place + 1);
                let name = node_name(zone, number);
                added.push(objects::node(&name, zone, CPUS, &[&network], &[]));
            }
        }
        self.create_nodes(&added).await;
    }

    /// Creates these, and waits until they are Ready.
    pub async fn create_nodes(&self, added: &[Node]) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (api, parameters) = (&nodes, &PostParams::default());
        let created = futures::stream::iter(added)
            .map(|node| api.create(parameters, node))
            .buffer_unordered(AT_ONCE);
        let created = created.try_for_each(|_| async { Ok(()) }).await;
        created.expect("the nodes are created");
        within(Duration::from_mins(1), "all nodes are Ready", async || {
            let list = nodes.list(&ListParams::default()).await;
            let list = list.map_err(|error| error.to_string())?.items;
            let waiting = list.iter().filter(|node| !is_ready(node)).count();
            if waiting == 0 {
                Ok(())
            } else {
                Err(format!("{waiting} are not"))
            }
        })
        .await;
    }

    /// Sends a node's merge patch.
    pub async fn patch_node(&self, name: &str, patch: &Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patched = nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.expect("the node is patched");
    }

    /// Has a node say that it is Ready, or that it is not.
    pub async fn node_is_ready(&self, name: &str, status: &str) {
        let condition =
            json!({"type": "Ready", "status": status, "reason": "Test", "message": "as told"});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patched = nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.expect("the node's status is patched");
    }

    /// Gives a node a zone, or takes it away.
    pub async fn label_zone(&self, name: &str, zone: Option<&str>) {
        let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
        self.patch_node(name, &labels).await;
    }

    /// Takes away nodes of a zone.
    pub async fn delete_nodes(&self, zone: &str, numbers: std::ops::Range<usize>) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for number in numbers {
            let name = node_name(zone, number);
            let deleted = nodes.delete(&name, &DeleteParams::default()).await;
            deleted.expect("the node is deleted");
        }
    }

    // === Services ===

    fn slices_api(&self) -> Api<EndpointSlice> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates Services.
    pub async fn create_services(&self, services: &[Service]) {
        let api: Api<Service> = Api::default_namespaced(self.client.clone());
        for service in services {
            let created = api.create(&PostParams::default(), service).await;
            created.expect("the Service is created");
        }
    }

    /// Changes a Service by a merge patch.
    pub async fn patch_service(&self, name: &str, patch: &Value) {
        let api: Api<Service> = Api::default_namespaced(self.client.clone());
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.expect("the Service is patched");
    }

    /// The same of the Namespace that the Services are in.
    pub async fn patch_namespace(&self, patch: &Value) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let patched = api
            .patch("default", &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.expect("the Namespace is patched");
    }

    /// Services that ask for Auto, each with so many pods in each zone, on the first `nodes` nodes of the zone in turn.
    pub async fn services(&self, names: &[String], pods: [usize; 3], nodes: usize) {
        let auto: Vec<Service> = names
            .iter()
            .map(|name| objects::service(name, &[objects::mode("Auto")]))
            .collect();
        self.create_services(&auto).await;
        for name in names {
            self.pods(name, pods, nodes).await;
        }
        let count = pods.iter().sum();
        for name in names {
            self.has_ready(name, count).await;
        }
    }

    /// Services that ask for Auto, each with one slice that nobody writes but once.
    pub async fn services_by_hand(&self, names: &[String], endpoints: [usize; 3]) {
        for (number, name) in names.iter().enumerate() {
            let by_hand = [objects::no_selector(), objects::mode("Auto")];
            self.create_services(&[objects::service(name, &by_hand)])
                .await;
            let endpoints = spread(&format!("10.8.{number}"), endpoints);
            let slice = objects::slice(name, name, &endpoints, &[]);
            self.create_slice(&slice).await;
        }
    }

    /// Creates pods of an app, so many in each zone.
    pub async fn pods(&self, app: &str, counts: [usize; 3], nodes: usize) {
        let mut pods = Vec::new();
        for (zone, count) in ZONES.into_iter().zip(counts) {
            let on = (0..count).map(|turn| node_name(zone, turn % nodes));
            pods.extend(on.map(|node| objects::pod(app, &node, 8080)));
        }
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        let (api, parameters) = (&api, &PostParams::default());
        let created = futures::stream::iter(&pods)
            .map(|pod| api.create(parameters, pod))
            .buffer_unordered(AT_ONCE);
        let created = created.try_for_each(|_| async { Ok(()) }).await;
        created.expect("the pods are created");
    }

    /// Waits until a Service has so many ready endpoints.
    pub async fn has_ready(&self, service: &str, count: usize) {
        let what = format!("{service} has {count} ready endpoints");
        within(Duration::from_mins(2), &what, async || {
            let ready = slices::ready_count(&self.slices(service).await);
            (ready == count)
                .then_some(())
                .ok_or_else(|| format!("{ready}"))
        })
        .await;
    }

    /// Creates a slice.
    pub async fn create_slice(&self, slice: &EndpointSlice) {
        let created = self
            .slices_api()
            .create(&PostParams::default(), slice)
            .await;
        created.expect("the slice is created");
    }

    /// Deletes the webhook configuration, and waits until the API server knows, which then asks nobody about `bare`: a
    /// slice that would get hints.
    pub async fn delete_webhook(&self, bare: &EndpointSlice) {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let deleted = api.delete("zonewise", &DeleteParams::default()).await;
        deleted.expect("the webhook configuration is deleted");
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually("the API server asks nobody", async || {
            let answered = self.slices_api().create(&dry_run, bare).await;
            let answered = answered.map_err(|error| error.to_string())?;
            slices::unhinted(&[answered])
        })
        .await;
    }

    /// The slices of a Service.
    pub async fn slices(&self, service: &str) -> Vec<EndpointSlice> {
        let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={service}"));
        let list = self.slices_api().list(&of_service).await;
        list.expect("slices are listed").items
    }

    /// Waits until every slice of these Services is what a fresh decision gives, with the guarantee for zones of so many
    /// CPUs. How long that took.
    pub async fn is_fresh(&self, services: &[String], cpus: [u32; 3]) -> Duration {
        let started = Instant::now();
        let limit = Duration::from_mins(1);
        within(limit, "every slice is as a fresh decision", async || {
            for service in services {
                self.check(service, cpus).await?;
            }
            Ok(())
        })
        .await;
        started.elapsed()
    }

    async fn check(&self, service: &str, cpus: [u32; 3]) -> Result<(), String> {
        let stored = self.slices(service).await;
        slices::guaranteed(&stored, cpus).map_err(|fault| format!("{service}: {fault}"))?;
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        for slice in &stored {
            let name = slices::name_of(slice);
            let patch = Patch::Merge(json!({}));
            let fresh = self.slices_api().patch(name, &dry, &patch).await;
            let fresh = fresh.map_err(|error| format!("{name}: {error}"))?;
            if fresh.endpoints != slice.endpoints {
                return Err(format!("{name} is not what a fresh decision gives"));
            }
        }
        Ok(())
    }

    /// Waits until no slice of these Services has a hint. How long that took.
    pub async fn is_bare(&self, services: &[String]) -> Duration {
        let started = Instant::now();
        eventually("every slice is stripped", async || {
            for service in services {
                let stored = self.slices(service).await;
                slices::unhinted(&stored).map_err(|fault| format!("{service}: {fault}"))?;
            }
            Ok(())
        })
        .await;
        started.elapsed()
    }

    // === What was written ===

    /// The patches that replicas sent from a mark of the audit log on: by whom, and of which slice.
    pub fn patches_from(&self, mark: usize) -> Vec<(String, String)> {
        let writes = self.audit().writes_from(mark);
        let ours = writes
            .iter()
            .filter(|write| write.verb() == "patch" && write.by() != "admin");
        ours.map(|write| (write.by().to_owned(), write.slice()))
            .collect()
    }

    /// Events of zonewise by the object that they are on: reason and note, in order.
    pub async fn events(&self) -> BTreeMap<String, Vec<(String, String)>> {
        let api: Api<Event> = Api::all(self.client.clone());
        let ours = ListParams::default().fields("reportingController=zonewise.dev/controller");
        let mut list = api.list(&ours).await.expect("events are listed").items;
        list.sort_by(|a, b| a.event_time.cmp(&b.event_time));
        let mut told: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for event in list {
            let name = event.regarding.and_then(|r| r.name).unwrap_or_default();
            let reason = event.reason.unwrap_or_default();
            let note = event.note.unwrap_or_default();
            told.entry(name).or_default().push((reason, note));
        }
        told
    }

    /// What the API server counts against the webhook: calls that failed, and writes that it refused because of it.
    pub async fn webhook_complaints(&self) -> Vec<String> {
        let request = hyper::Request::get("/metrics").body(Vec::new());
        let request = request.expect("a path is all it needs");
        let text = self.client.request_text(request).await;
        let text = text.expect("the API server has metrics");
        let counts = ["fail_open", "rejection"].map(|what| {
            let metric = format!("apiserver_admission_webhook_{what}_count");
            let samples = metrics::samples(&text, &metric, &[("name", webhook::NAME)]);
            let counted = samples.filter(|(_, value)| *value > 0.0);
            counted.map(|(line, _)| line.to_owned()).collect::<Vec<_>>()
        });
        counts.concat()
    }

    /// Writes that the API server refused or did without the webhook.
    pub fn complaints(&self) -> Vec<String> {
        self.audit().faults(None)
    }
}

/// The ClusterRole and the Role of docs/controller.md.
fn documented_permissions() -> [Value; 2] {
    let page = include_str!("../../../docs/controller.md");
    let (_, section) = page.split_once("## Permissions").expect("a section");
    let (_, yaml) = section.split_once("```yaml\n").expect("YAML");
    let (yaml, _) = yaml.split_once("```").expect("its end");
    let roles: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("it is YAML");
    let kinds: Vec<_> = roles.iter().map(|role| role["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("ClusterRole"), Some("Role")]);
    roles.try_into().expect("there are two")
}

/// Asserts in full size alone that something took no longer than it may.
pub fn assert_in_time(what: &str, took: Duration, limit: Duration) {
    assert!(
        !crate::is_full_size() || took < limit,
        "{what} took {took:.1?}"
    );
}

/// The name of a node.
pub fn node_name(zone: &str, number: usize) -> String {
    format!("{}-{number}", zone.replace("zone", "node"))
}

/// Numbered names of Services.
pub fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("web-{number}")).collect()
}

/// The sum of the samples of a replica's metric with these labels; zero where it has none or does not answer.
pub fn number(replica: &Replica, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let text = replica.metrics().unwrap_or_default();
    metrics::sum(&text, metric, labels)
}

/// Waits until a replica's metric is this.
pub async fn metric_is(replica: &Replica, metric: &str, labels: &[(&str, &str)], value: f64) {
    let what = format!("{metric}{labels:?} is {value}");
    eventually(&what, async || {
        let found = number(replica, metric, labels);
        ((found - value).abs() < 1e-6)
            .then_some(())
            .ok_or_else(|| format!("it is {found}"))
    })
    .await;
}
