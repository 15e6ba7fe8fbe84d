//! Whether the cluster's data plane follows zone hints: docs/data-planes.md has the rules and their sources.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use serde::Deserialize;

use super::line::{Line, Status, Thing};
use crate::cli::api::{Api, Refusal, collection};
use crate::words;

const CILIUM_CONFIG: &str = "cilium-config";
const SERVICE_TOPOLOGY: &str = "enable-service-topology";

#[derive(Deserialize)]
struct DaemonSet {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
}

/// Reports which data plane serves ClusterIPs and whether it follows zone hints.
///
/// `ignored_managers` are the values of `endpointslice.kubernetes.io/managed-by` whose slices zonewise neither hints nor
/// counts.
pub async fn check(api: &Api, ignored_managers: &[String]) -> Line {
    let mut daemon_sets = Vec::new();
    let listed = api
        .list("/apis/apps/v1/daemonsets", None, |one| {
            daemon_sets.push(one);
        })
        .await;
    match listed {
        Ok(()) => by_daemon_sets(api, &daemon_sets, ignored_managers).await,
        // Every authenticated user can read the list of API groups.
        Err(refusal) => match api.get_path::<APIGroupList>("/apis").await {
            Ok(groups) if groups.groups.iter().any(|g| g.name == "cilium.io") => Line::warning(
                Thing::DataPlane,
                "the API server serves the API group cilium.io, so Cilium may serve ClusterIPs; DaemonSets can't be \
                 listed, so its configuration was not read",
                "grant list on daemonsets.apps and run the check again (docs/check.md#permissions)",
            ),
            _ => Line::not_looked_at(Thing::DataPlane, &refusal, "list daemonsets.apps"),
        },
    }
}

async fn by_daemon_sets(api: &Api, daemon_sets: &[DaemonSet], ignored_managers: &[String]) -> Line {
    let named = |name: &str| daemon_sets.iter().find(|one| one.metadata.name == name);
    // Also kube-proxy-ds and kube-proxy-windows.
    let has_kube_proxy = daemon_sets
        .iter()
        .any(|one| one.metadata.name.starts_with("kube-proxy"));
    let mut others = vec![
        "cilium",
        "anetd",
        "kube-router",
        "antrea-agent",
        "ovnkube-node",
        "calico-node",
    ];
    others.retain(|name| named(name).is_some());
    let line = if let Some(agent) = named("cilium") {
        cilium(api, &agent.metadata.namespace, has_kube_proxy).await
    } else if named("anetd").is_some() {
        Line::warning(
            Thing::DataPlane,
            "anetd (GKE Dataplane V2) serves ClusterIPs; its documentation does not say whether it follows zone hints",
            "measure the traffic between zones before and after you opt a Service in; see docs/data-planes.md",
        )
    } else if has_kube_proxy {
        Line::ok(Thing::DataPlane, "kube-proxy, which follows zone hints")
    } else if others.is_empty() {
        Line::ok(
            Thing::DataPlane,
            "no DaemonSet of a known data plane; kube-proxy also runs as a static pod or inside a node agent",
        )
    } else {
        Line::ok(
            Thing::DataPlane,
            format!(
                "no DaemonSet of kube-proxy; {} may serve ClusterIPs: docs/data-planes.md says which of them follow zone hints",
                words::first(&others)
            ),
        )
    };
    match line.status {
        Status::Ok if has_kube_proxy || others.is_empty() => {
            ignored_slices(ignored_managers).unwrap_or(line)
        }
        _ => line,
    }
}

async fn cilium(api: &Api, namespace: &str, has_kube_proxy: bool) -> Line {
    let config = format!("ConfigMap {CILIUM_CONFIG} in namespace {namespace}");
    let served = if has_kube_proxy {
        "Cilium runs beside kube-proxy and serves ClusterIPs for pods"
    } else {
        "Cilium serves ClusterIPs"
    };
    let path = collection("/api/v1", Some(namespace), "configmaps");
    let data = match api.get::<ConfigMap>(&path, CILIUM_CONFIG).await {
        Ok(found) => found.data.unwrap_or_default(),
        Err(Refusal::NotFound(_)) => {
            return Line::warning(
                Thing::DataPlane,
                format!(
                    "{served}; there is no {config}, so it is unknown whether it follows zone hints"
                ),
                format!("see that the agents run with --{SERVICE_TOPOLOGY}"),
            );
        }
        Err(refusal) => {
            return Line::not_looked_at(Thing::DataPlane, &refusal, &format!("get the {config}"))
                .of(Thing::DataPlane, served);
        }
    };
    let found = match data.get(SERVICE_TOPOLOGY).map(String::as_str) {
        Some("true") if has_kube_proxy => {
            return Line::ok(
                Thing::DataPlane,
                format!(
                    "{served}; both follow zone hints: {SERVICE_TOPOLOGY} is \"true\" in the {config}"
                ),
            );
        }
        Some("true") => {
            return Line::ok(
                Thing::DataPlane,
                format!(
                    "{served} and follows zone hints: {SERVICE_TOPOLOGY} is \"true\" in the {config}"
                ),
            );
        }
        Some(value) => format!("{SERVICE_TOPOLOGY} is {value:?} in the {config}"),
        None => format!("the {config} has no {SERVICE_TOPOLOGY}"),
    };
    Line::warning(
        Thing::DataPlane,
        format!("{served}, but ignores zone hints: {found}"),
        format!(
            "set loadBalancer.serviceTopology=true in Cilium's Helm values, then restart the agents: kubectl -n {namespace} \
             rollout restart daemonset/cilium"
        ),
    )
}

/// kube-proxy reads the slices of every manager, so one that zonewise ignores has endpoints without hints.
fn ignored_slices(managers: &[String]) -> Option<Line> {
    (!managers.is_empty()).then(|| {
        Line::warning(
            Thing::DataPlane,
            format!(
                "kube-proxy also reads the slices that zonewise ignores (managed by {}): it follows no hint of a Service \
                 that has ready endpoints in one",
                words::first(managers)
            ),
            "remove --ignored-slice-managers, unless kube-proxy serves no Service with such slices",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";
    const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/cilium-config";

    fn status(code: u16, reason: &str) -> (u16, Value) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
            "code": code, "message": format!("scripted: {reason}")});
        (code, status)
    }

    fn not_found() -> (u16, Value) {
        status(404, "NotFound")
    }

    fn forbidden() -> (u16, Value) {
        status(403, "Forbidden")
    }

    fn config_map(data: &Value) -> (u16, Value) {
        let metadata = json!({"name": "cilium-config", "namespace": "kube-system"});
        let object =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data});
        (200, object)
    }

    fn daemon_sets(names: &[&str]) -> (u16, Value) {
        let one = |name: &&str| json!({"metadata": {"name": name, "namespace": "kube-system"}});
        let items: Vec<Value> = names.iter().map(one).collect();
        (200, json!({"metadata": {}, "items": items}))
    }

    /// Checks an API server that answers these paths, and any other with 404.
    async fn check_server<const N: usize>(
        answers: [(&'static str, (u16, Value)); N],
        ignored_managers: &[&str],
    ) -> Line {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answers = answers.clone();
            async move {
                let path = request.uri().path();
                let found = answers.into_iter().find(|(known, _)| *known == path);
                let (code, body) = found.map_or_else(not_found, |(_, answer)| answer);
                let answer = Response::builder().status(code);
                Ok::<_, Infallible>(answer.body(Full::<Bytes>::from(body.to_string())).unwrap())
            }
        });
        let managers: Vec<String> = ignored_managers.iter().map(ToString::to_string).collect();
        check(&Api::new(Client::new(service, "default")), &managers).await
    }

    async fn with_config(names: &[&str], config: (u16, Value)) -> (Status, String) {
        let line = check_server([(DAEMON_SETS, daemon_sets(names)), (CONFIG, config)], &[]).await;
        (line.status, line.message)
    }

    async fn without_config(names: &[&str]) -> (Status, String) {
        with_config(names, not_found()).await
    }

    fn ok(message: &str) -> (Status, String) {
        (Status::Ok, message.to_owned())
    }

    fn warning(message: &str) -> (Status, String) {
        (Status::Warning, message.to_owned())
    }

    #[tokio::test]
    async fn kube_proxy_alone_follows_hints_under_any_of_its_names() {
        let follows = ok("kube-proxy, which follows zone hints");
        for names in [
            ["kube-proxy", "calico-node"],
            ["kube-proxy-ds", "kube-proxy-windows"],
            ["cilium-envoy", "kube-proxy"],
        ] {
            assert_eq!(without_config(&names).await, follows, "{names:?}");
        }
    }

    #[tokio::test]
    async fn cilium_follows_hints_only_with_service_topology() {
        let on = config_map(&json!({"enable-service-topology": "true"}));
        assert_eq!(
            with_config(&["cilium"], on.clone()).await,
            ok(
                "Cilium serves ClusterIPs and follows zone hints: enable-service-topology is \"true\" in the \
                ConfigMap cilium-config in namespace kube-system"
            )
        );
        assert_eq!(
            with_config(&["kube-proxy", "cilium"], on).await,
            ok(
                "Cilium runs beside kube-proxy and serves ClusterIPs for pods; both follow zone hints: \
                enable-service-topology is \"true\" in the ConfigMap cilium-config in namespace kube-system"
            )
        );
        let off = config_map(&json!({"enable-service-topology": "false"}));
        assert_eq!(
            with_config(&["kube-proxy", "cilium"], off).await,
            warning(
                "Cilium runs beside kube-proxy and serves ClusterIPs for pods, but ignores zone hints: \
                 enable-service-topology is \"false\" in the ConfigMap cilium-config in namespace kube-system"
            )
        );
    }

    #[tokio::test]
    async fn a_config_map_without_the_key_is_service_topology_off() {
        let lacks = warning(
            "Cilium serves ClusterIPs, but ignores zone hints: the ConfigMap cilium-config in namespace kube-system has no \
             enable-service-topology",
        );
        for data in [json!({"kube-proxy-replacement": "true"}), Value::Null] {
            let line = with_config(&["cilium"], config_map(&data)).await;
            assert_eq!(line, lacks, "{data}");
        }
    }

    #[tokio::test]
    async fn the_remedy_names_the_namespace_of_the_agents() {
        let agent = json!({"metadata": {"name": "cilium", "namespace": "cilium"}});
        let list = (200, json!({"metadata": {}, "items": [agent]}));
        let path = "/api/v1/namespaces/cilium/configmaps/cilium-config";
        let line = check_server([(DAEMON_SETS, list), (path, config_map(&json!({})))], &[]).await;
        assert_eq!(
            line.advice.as_deref(),
            Some(
                "set loadBalancer.serviceTopology=true in Cilium's Helm values, then restart the agents: \
                 kubectl -n cilium rollout restart daemonset/cilium"
            )
        );
    }

    #[tokio::test]
    async fn a_config_map_that_can_not_be_read_is_named() {
        assert_eq!(
            without_config(&["cilium"]).await,
            warning(
                "Cilium serves ClusterIPs; there is no ConfigMap cilium-config in namespace kube-system, so it is unknown \
                 whether it follows zone hints"
            )
        );
        assert_eq!(
            with_config(&["cilium", "kube-proxy"], forbidden()).await,
            warning(
                "Cilium runs beside kube-proxy and serves ClusterIPs for pods: not looked at: needs permission to get the \
                 ConfigMap cilium-config in namespace kube-system"
            )
        );
        assert_eq!(
            with_config(&["cilium"], status(500, "InternalError")).await,
            warning("Cilium serves ClusterIPs: not looked at: scripted: InternalError (500)")
        );
    }

    #[tokio::test]
    async fn dataplane_v2_is_a_warning_beside_kube_proxy_too() {
        let unknown = warning(
            "anetd (GKE Dataplane V2) serves ClusterIPs; its documentation does not say whether it follows zone hints",
        );
        assert_eq!(without_config(&["anetd"]).await, unknown);
        assert_eq!(without_config(&["anetd", "kube-proxy"]).await, unknown);
    }

    #[tokio::test]
    async fn another_data_plane_is_named() {
        assert_eq!(
            without_config(&["calico-node", "antrea-agent"]).await,
            ok(
                "no DaemonSet of kube-proxy; antrea-agent, calico-node may serve ClusterIPs: docs/data-planes.md says which \
                of them follow zone hints"
            )
        );
        assert_eq!(
            without_config(&["cilium-envoy"]).await,
            ok(
                "no DaemonSet of a known data plane; kube-proxy also runs as a static pod or inside a node agent"
            )
        );
    }

    #[tokio::test]
    async fn slices_that_zonewise_ignores_are_a_warning_where_kube_proxy_reads_them() {
        let mesh = "endpointslice-mesh-controller.cilium.io";
        let on = config_map(&json!({"enable-service-topology": "true"}));
        let check_ignored = async |names: &[&str], managers: &[&str]| {
            let answers = [(DAEMON_SETS, daemon_sets(names)), (CONFIG, on.clone())];
            check_server(answers, managers).await
        };
        for names in [&["kube-proxy"][..], &["kube-proxy", "cilium"], &[]] {
            let line = check_ignored(names, &[mesh]).await;
            assert_eq!(
                (line.status, line.message.as_str()),
                (
                    Status::Warning,
                    "kube-proxy also reads the slices that zonewise ignores (managed by \
                     endpointslice-mesh-controller.cilium.io): it follows no hint of a Service that has ready endpoints in \
                     one"
                ),
                "{names:?}"
            );
        }
        assert_eq!(check_ignored(&["cilium"], &[mesh]).await.status, Status::Ok);
        assert_eq!(check_ignored(&["kube-proxy"], &[]).await.status, Status::Ok);
    }

    #[tokio::test]
    async fn without_daemon_sets_the_api_groups_hint_at_cilium() {
        let check_groups = async |groups: Value| {
            let groups = (
                200,
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
            );
            check_server([(DAEMON_SETS, forbidden()), ("/apis", groups)], &[]).await
        };
        let cilium = json!([{"name": "cilium.io", "versions": []}]);
        let line = check_groups(cilium).await;
        assert_eq!(line.status, Status::Warning);
        assert!(
            line.message.contains("Cilium may serve ClusterIPs"),
            "{}",
            line.message
        );
        let line = check_groups(json!([{"name": "apps", "versions": []}])).await;
        assert_eq!(
            line.message,
            "not looked at: needs permission to list daemonsets.apps"
        );
    }
}
