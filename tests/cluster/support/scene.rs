//! A namespace of the world, and what tests do and see in it.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::endpoint::With as _;
use super::objects::{SERVICE_NAME, from_json, mode, no_selector, pod, service, slice};
use super::replica::LoggedDecision;
use super::slices;
use super::wait::{LONG_ENOUGH, PAUSE, eventually};
use super::world::{WORLD, World, say};

/// A namespace, and the place in zonewise's log where its story begins.
pub struct Scene<'w> {
    /// The world around it.
    pub world: &'w World,
    /// Its name.
    pub namespace: String,
    mark: usize,
}

impl<'w> Scene<'w> {
    /// Makes the namespace.
    pub async fn begin(world: &'w World, namespace: &str) -> Self {
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let labels = json!({WORLD: world.name});
        let object = from_json(json!({"metadata": {"name": namespace, "labels": labels}}));
        namespaces
            .create(&PostParams::default(), &object)
            .await
            .expect("the namespace is created");
        Self {
            world,
            namespace: namespace.to_owned(),
            mark: world.replica.log_mark(),
        }
    }

    /// The objects of a kind in the namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.world.client.clone(), &self.namespace)
    }

    /// Creates an object and gives it as stored.
    pub async fn create<K>(&self, object: &K) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
    {
        let created = self.api().create(&PostParams::default(), object).await;
        created.unwrap_or_else(|error| panic!("create {object:?}: {error}"))
    }

    /// What would be stored of a slice that is created, and is not.
    pub async fn dry_run(&self, slice: &EndpointSlice) -> EndpointSlice {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.api()
            .create(&dry, slice)
            .await
            .unwrap_or_else(|error| panic!("dry run of {slice:?}: {error}"))
    }

    /// Sends an object's merge patch and gives it as stored.
    pub async fn patch<K>(&self, name: &str, patch: &Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let patched = self
            .api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap_or_else(|error| panic!("patch {name} with {patch}: {error}"))
    }

    /// Creates a Service and waits until zonewise has heard of it: the first slice would come sooner.
    pub async fn service(&self, service: &Service) {
        self.create(service).await;
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let probe = slice("probe", name, &[], &[]);
        let unknown = || {
            self.world
                .replica
                .admissions(&[("reason", "UnknownService")])
        };
        eventually(&format!("zonewise knows Service {name}"), async || {
            let before = unknown();
            self.dry_run(&probe).await;
            if unknown() > before {
                Err("it does not".into())
            } else {
                Ok(())
            }
        })
        .await;
    }

    /// Creates a Service that asks for heuristic Auto over the pods of its name.
    pub async fn auto(&self, name: &str) {
        self.service(&service(name, &[mode("Auto")])).await;
    }

    /// The same without a selector: its slices are written by hand.
    pub async fn auto_by_hand(&self, name: &str) {
        self.service(&service(name, &[mode("Auto"), no_selector()]))
            .await;
    }

    /// Writes a slice of a Service by hand and gives it as stored.
    pub async fn write(&self, name: &str, service: &str, endpoints: &[Endpoint]) -> EndpointSlice {
        self.create(&slice(name, service, endpoints, &[])).await
    }

    /// Waits until zonewise has heard of a slice with a ready endpoint in a zone: only then does it know the zone of a
    /// copy that does not say.
    pub async fn is_known(&self, known: &EndpointSlice, service: &str) {
        let mut copy = known.endpoints[0].clone();
        copy.zone = None;
        copy.hints = None;
        copy.conditions.get_or_insert_default().terminating = Some(true);
        let probe = slice("probe", service, &[copy], &[]);
        let name = slices::name_of(known);
        eventually(&format!("zonewise knows slice {name}"), async || {
            let answered = self.dry_run(&probe).await;
            let is_hinted = |endpoint| !slices::zone_hints(endpoint).is_empty();
            if answered.endpoints.iter().all(is_hinted) {
                Ok(())
            } else {
                Err("a copy of it has no hint".into())
            }
        })
        .await;
    }

    /// Creates pods of an app, so many on each node.
    pub async fn pods(&self, app: &str, nodes: &[(&str, usize)]) {
        self.pods_listening_on(8080, app, nodes).await;
    }

    /// The same with another port.
    pub async fn pods_listening_on(&self, port: u16, app: &str, nodes: &[(&str, usize)]) {
        // KWOK makes a node's pool of addresses with its first pod, and of two at once it may give both the same address.
        let first = nodes.iter().filter(|(_, count)| *count > 0);
        let first: Vec<Pod> = first.map(|(node, _)| pod(app, node, port)).collect();
        self.create_pods(&first).await;
        eventually("the first pods have addresses", async || {
            let of_app = ListParams::default().labels(&format!("app={app}"));
            let pods = self.api::<Pod>().list(&of_app).await;
            let pods = pods.map_err(|error| error.to_string())?.items;
            let has_address = |pod: &&Pod| pod.status.as_ref().is_some_and(|s| s.pod_ip.is_some());
            let left = pods.len() - pods.iter().filter(has_address).count();
            (left == 0)
                .then_some(())
                .ok_or_else(|| format!("{left} have none"))
        })
        .await;
        let others = |&(node, count): &(&str, usize)| {
            let (app, node) = (app.to_owned(), node.to_owned());
            (1..count).map(move |_| pod(&app, &node, port))
        };
        let others: Vec<Pod> = nodes.iter().flat_map(others).collect();
        self.create_pods(&others).await;
    }

    async fn create_pods(&self, pods: &[Pod]) {
        const AT_ONCE: usize = 16;
        let (api, params) = (&self.api::<Pod>(), &PostParams::default());
        let created = futures::stream::iter(pods)
            .map(|pod| api.create(params, pod))
            .buffer_unordered(AT_ONCE);
        created
            .try_for_each(|_| async { Ok(()) })
            .await
            .expect("the pods are created");
    }

    /// Deletes all pods and what makes them, and waits until they are gone: a pod whose node is taken away would have
    /// its controllers complain for ever.
    pub async fn no_pods(&self) {
        let (everything, now) = (ListParams::default(), DeleteParams::default());
        let pods = self.api::<Pod>();
        self.api::<Deployment>()
            .delete_collection(&now, &everything)
            .await
            .expect("the Deployments are deleted");
        self.api::<ReplicaSet>()
            .delete_collection(&now, &everything)
            .await
            .expect("the ReplicaSets are deleted");
        eventually("the pods are gone", async || {
            pods.delete_collection(&now, &everything)
                .await
                .map_err(|error| error.to_string())?;
            let left = pods
                .list(&everything)
                .await
                .map_err(|error| error.to_string())?
                .items
                .len();
            if left == 0 {
                Ok(())
            } else {
                Err(format!("{left} are left"))
            }
        })
        .await;
    }

    /// The slices of a Service as they are stored, by name.
    pub async fn slices(&self, service: &str) -> Vec<EndpointSlice> {
        let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={service}"));
        let mut slices = self
            .api::<EndpointSlice>()
            .list(&of_service)
            .await
            .expect("slices are listed")
            .items;
        slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        slices
    }

    /// The slices of a Service at the first moment when `is_so`.
    pub async fn slices_once(
        &self,
        service: &str,
        what: &str,
        is_so: impl Fn(&[EndpointSlice]) -> bool,
    ) -> Vec<EndpointSlice> {
        let found = self.slices_once_within(LONG_ENOUGH, service, is_so).await;
        found.unwrap_or_else(|slices| {
            panic!(
                "slices of {service}: {what}: they are\n{}",
                slices::describe(&slices)
            )
        })
    }

    /// The same with a time limit, after which they are given as they are.
    pub async fn slices_once_within(
        &self,
        limit: Duration,
        service: &str,
        is_so: impl Fn(&[EndpointSlice]) -> bool,
    ) -> Result<Vec<EndpointSlice>, Vec<EndpointSlice>> {
        let started = Instant::now();
        loop {
            let slices = self.slices(service).await;
            if is_so(&slices) {
                return Ok(slices);
            }
            if started.elapsed() > limit {
                return Err(slices);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The slices of a Service at the first moment when so many endpoints are ready: not when they are hinted, which
    /// must be so by then.
    pub async fn slices_with_ready(&self, service: &str, count: usize) -> Vec<EndpointSlice> {
        self.slices_once(service, &format!("{count} ready"), |slices| {
            slices::ready_count(slices) == count
        })
        .await
    }

    /// Writes each slice of a Service anew, every endpoint hinted for one zone or for none, and gives them as stored. The
    /// built-in controller, which hints too, has no part in such a write: what comes of it is zonewise's doing.
    pub async fn rewrite(&self, service: &str, zone: Option<&str>) -> Vec<EndpointSlice> {
        let mut written = Vec::new();
        for slice in self.slices(service).await {
            let endpoints = slice.endpoints.iter().cloned();
            let endpoints: Vec<Endpoint> = endpoints.map(|e| e.hinted_only(zone)).collect();
            let patch = json!({"endpoints": endpoints});
            written.push(self.patch(slices::name_of(&slice), &patch).await);
        }
        written
    }

    /// Sends a slice an empty merge patch, which changes nothing and has it decided on once more.
    pub async fn touch(&self, slice: &EndpointSlice) -> EndpointSlice {
        self.patch(slices::name_of(slice), &json!({})).await
    }

    /// Touches every slice of a Service, again until they are as they must be: one request can't tell when zonewise's
    /// watch has shown it what was stored a moment ago.
    pub async fn touch_until<T>(
        &self,
        service: &str,
        what: &str,
        must_be: impl Fn(&[EndpointSlice]) -> Result<T, String>,
    ) -> Vec<EndpointSlice> {
        let mut rounds = 0;
        let slices = eventually(
            &format!("slices of {service}, touched: {what}"),
            async || {
                rounds += 1;
                let mut touched = Vec::new();
                for slice in self.slices(service).await {
                    touched.push(self.touch(&slice).await);
                }
                match must_be(&touched) {
                    Ok(_) => Ok(touched),
                    Err(fault) => Err(format!("{fault}; they are\n{}", slices::describe(&touched))),
                }
            },
        )
        .await;
        if rounds > 1 {
            say(&format!(
                "         {what}: after {rounds} rounds of empty patches"
            ));
        }
        slices
    }

    /// Changes an annotation of a Service that means nothing, which has its controller look at it again.
    pub async fn nudge_service(&self, name: &str, value: usize) {
        let nudge =
            json!({"metadata": {"annotations": {"zonewise.test/nudge": value.to_string()}}});
        self.patch::<Service>(name, &nudge).await;
    }

    /// Waits for a line of the log that says so of a Service, and gives the last one.
    pub async fn logged(&self, service: &str, decision: &str, reason: &str) -> LoggedDecision {
        self.logged_of_type(service, "IPv4", decision, reason).await
    }

    /// The same for an address type.
    pub async fn logged_of_type(
        &self,
        service: &str,
        address_type: &str,
        decision: &str,
        reason: &str,
    ) -> LoggedDecision {
        let service = format!("{}/{service}", self.namespace);
        eventually(
            &format!("the log tells of {decision} {reason} for {service}"),
            async || {
                let told = self.world.replica.logged_decisions(self.mark);
                let ours = told
                    .iter()
                    .filter(|line| line.service == service && line.address_type == address_type);
                let found = ours
                    .clone()
                    .rfind(|line| line.decision == decision && line.reason == reason);
                found
                    .cloned()
                    .ok_or_else(|| format!("it tells of {:?}", ours.collect::<Vec<_>>()))
            },
        )
        .await
    }

    /// How often zonewise answered with this decision and reason.
    #[must_use]
    pub fn answers(&self, decision: &str, reason: &str) -> f64 {
        self.world
            .replica
            .admissions(&[("decision", decision), ("reason", reason)])
    }

    /// All that helps to understand a failure: slices, metrics and the end of the log.
    pub async fn report(&self) -> String {
        let slices = self
            .api::<EndpointSlice>()
            .list(&ListParams::default())
            .await;
        let slices = slices.map_or_else(
            |error| error.to_string(),
            |list| slices::describe(&list.items),
        );
        let metrics = self.world.replica.metrics().unwrap_or_else(|error| error);
        let metrics: Vec<_> = metrics
            .lines()
            .filter(|line| line.starts_with("zonewise_") && !line.contains("_bucket"))
            .collect();
        let log = self.world.replica.end_of_log();
        format!(
            "slices in {}:\n{slices}\nmetrics:\n{}\nlog:\n{log}",
            self.namespace,
            metrics.join("\n")
        )
    }
}
