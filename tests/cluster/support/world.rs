//! A control plane, zonewise and the cluster that scenes play in.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use tempfile::TempDir;

use super::audit::AuditLog;
use super::objects::{self, ZONES};
use super::plane::{Plane, Shared};
use super::proxy::Proxy;
use super::replica::{Certificates, Replica};
use super::scene::Scene;
use super::wait::eventually;
use super::webhook::Registration;
use super::{endpoint, metrics, slices};

/// The label of a namespace that ties it to a world.
pub const WORLD: &str = "zonewise.test/world";

/// All that runs. Its parts end in the order in which they stand here.
pub struct World {
    /// Stands for the webhook's Service: the API server calls here.
    pub proxy: Proxy,
    /// The replica behind it; a scene may add another.
    pub replica: Replica,
    /// An administrator's client.
    pub client: Client,
    /// The name of the webhook configuration, and the value of the label of its namespaces.
    pub name: &'static str,
    certificates: Certificates,
    plane: Arc<Plane>,
    dir: TempDir,
}

impl World {
    /// Starts everything: three zones of 4 CPUs, each with a node (`node-a`) whose pods have IPv4 addresses and one
    /// (`dual-a`) whose pods have both kinds.
    pub async fn start() -> Self {
        let plane = Arc::new(Plane::start().await);
        create_first_nodes(&plane.client).await;
        let world = Self::on(plane, "zonewise", Registration::everywhere("zonewise")).await;
        world.knows_nodes(6).await;
        world.capacity_is([4, 4, 4]).await;
        world
    }

    /// The world of the scenes that change neither nodes nor replicas. The webhook is called for its namespaces alone.
    pub async fn shared() -> Arc<Self> {
        static SHARED: Shared<World> = Shared::new();
        SHARED
            .get(async || {
                let plane = Plane::shared().await;
                let namespaces = json!({"matchLabels": {WORLD: "shared"}});
                Self::on(plane, "shared", Registration::of("shared", namespaces)).await
            })
            .await
    }

    async fn on(plane: Arc<Plane>, name: &'static str, registration: Registration) -> Self {
        let client = plane.client.clone();
        objects::free_lease(&client, "default").await;
        let dir = TempDir::new().expect("a temporary folder can be made");
        let certificates = Certificates::generate(dir.path());
        let replica = Replica::new("zonewise", dir.path(), plane.kubeconfig(), &certificates)
            .with("--validation", "warn")
            .with("--webhook-configuration", name);
        replica.start().await;
        let proxy = Proxy::over(&[&replica]);
        let world = Self {
            proxy,
            replica,
            client,
            name,
            certificates,
            plane,
            dir,
        };
        registration
            .register(&world.client, world.proxy.port, &world.ca())
            .await;
        world.webhook_is_called().await;
        world
    }

    /// The API server's audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.plane.audit
    }

    /// The control plane.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// The kubeconfig of an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// A folder that ends with the world.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The CA of what replicas serve, PEM.
    #[must_use]
    pub fn ca(&self) -> Vec<u8> {
        self.certificates.ca()
    }

    /// The API server hears of the webhook a moment after it is registered.
    async fn webhook_is_called(&self) {
        static CALLED: AtomicUsize = AtomicUsize::new(0);
        let number = CALLED.fetch_add(1, Ordering::Relaxed);
        let scene = Scene::begin(self, &format!("is-the-webhook-called-{number}")).await;
        scene
            .service(&objects::service(
                "web",
                &[objects::no_selector(), objects::mode("Auto")],
            ))
            .await;
        let slice = objects::slice("probe", "web", &endpoint::spread("10.9.0", [1, 1, 1]), &[]);
        eventually("the API server calls the webhook", async || {
            slices::hinted(&[scene.dry_run(&slice).await])
        })
        .await;
    }

    /// The names of the nodes that a scene added.
    pub async fn added_nodes(&self) -> Vec<String> {
        let first: Vec<String> = ZONES
            .into_iter()
            .flat_map(|zone| [node_name(zone), dual_node_name(zone)])
            .collect();
        let nodes = Api::<Node>::all(self.client.clone())
            .list(&ListParams::default())
            .await
            .expect("nodes are listed");
        nodes
            .into_iter()
            .filter_map(|node| node.metadata.name)
            .filter(|name| !first.contains(name))
            .collect()
    }

    /// Takes those nodes away, and waits until zonewise counts the first six alone.
    pub async fn remove_added_nodes(&self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for name in self.added_nodes().await {
            nodes
                .delete(&name, &DeleteParams::default())
                .await
                .expect("the node is deleted");
        }
        self.knows_nodes(6).await;
        self.capacity_is([4, 4, 4]).await;
    }

    /// Another replica beside the first; not yet started.
    #[must_use]
    pub fn another_replica(&self, name: &str) -> Replica {
        Replica::new(
            name,
            self.dir.path(),
            self.plane.kubeconfig(),
            &self.certificates,
        )
    }

    /// Waits until zonewise counts CPUs in this proportion.
    pub async fn capacity_is(&self, cpus: [u32; 3]) {
        let total: u32 = cpus.iter().sum();
        eventually("zonewise knows the capacity of the zones", async || {
            let text = self.replica.metrics()?;
            let share =
                |zone| metrics::sum(&text, "zonewise_zone_capacity_ratio", &[("zone", zone)]);
            let shares = ZONES.map(share);
            let wanted = cpus.map(|cpus| f64::from(cpus) / f64::from(total));
            let close = shares
                .iter()
                .zip(wanted)
                .all(|(share, wanted)| (share - wanted).abs() < 1e-6);
            if close {
                Ok(())
            } else {
                Err(format!("the shares are {shares:?} instead of {wanted:?}"))
            }
        })
        .await;
    }

    /// Adds a node, and waits until it is Ready where KWOK plays its kubelet.
    pub async fn add_node(&self, node: &Node) {
        create_node(&self.client, node).await;
    }

    /// How many nodes zonewise knows, whatever it thinks of them.
    pub async fn knows_nodes(&self, count: u32) {
        eventually("zonewise knows all nodes", async || {
            let known = metrics::sum(&self.replica.metrics()?, "zonewise_nodes", &[]);
            if (known - f64::from(count)).abs() < 0.5 {
                Ok(())
            } else {
                Err(format!("{known} of {count}"))
            }
        })
        .await;
    }
}

fn node_name(zone: &str) -> String {
    zone.replace("zone", "node")
}

fn dual_node_name(zone: &str) -> String {
    zone.replace("zone", "dual")
}

/// Creates two nodes in each zone: `node-a` and `dual-a`.
pub async fn create_first_nodes(client: &Client) {
    for zone in ZONES {
        let (name, dual) = (node_name(zone), dual_node_name(zone));
        let number = zone.bytes().last().unwrap_or_default();
        let (ipv4, both) = (
            format!("10.{number}.0.0/16"),
            format!("10.1{number}.0.0/16"),
        );
        let ipv6 = format!("fd00:{number}::/64");
        create_node(client, &objects::node(&name, zone, 2, &[&ipv4], &[])).await;
        let dual = objects::node(&dual, zone, 2, &[&both, &ipv6], &[]);
        create_node(client, &dual).await;
    }
}

/// Says something at once: the output of tests is held back until they fail.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Creates a node. KWOK gives pods the address of the node until it knows the node, so a managed node is waited for.
pub async fn create_node(client: &Client, node: &Node) {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes
        .create(&PostParams::default(), node)
        .await
        .expect("the node is created");
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let labels = node.metadata.labels.clone().unwrap_or_default();
    if labels.contains_key(objects::UNMANAGED) {
        return;
    }
    eventually(&format!("{name} is Ready"), async || {
        let node = nodes.get(name).await.map_err(|error| error.to_string())?;
        if is_ready(&node) {
            Ok(())
        } else {
            Err("it is not".into())
        }
    })
    .await;
}

/// Whether pods may be on a node.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    ready && taints.is_none_or(Vec::is_empty)
}
