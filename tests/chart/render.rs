//! The rendered objects: deterministic, the same with both helms, and as the modes promise.

use serde_json::{Value, json};

use super::helm::{Helm, Objects, Release};
use super::tools::{root, text_of};
use super::values::{CA, base64, certificates, everything, merged, ways};

each_helm!(
    it_passes_lint,
    two_renders_are_the_same_to_the_byte,
    whole_numbers_stay_whole_from_a_million_on,
);

fn it_passes_lint(helm: &Helm) {
    for values in [json!({}), everything()] {
        helm.lint(&values)
            .unwrap_or_else(|said| panic!("{values}: {said}"));
    }
}

fn two_renders_are_the_same_to_the_byte(helm: &Helm) {
    let release = Release::usual();
    for values in ways() {
        let one = helm.template(&release, &values).expect("it renders");
        let another = helm.template_file(&release, &helm.values_file(&values));
        assert_eq!(Ok(one), another, "{values}");
    }
}

#[test]
#[ignore = "needs helm 3: make ci"]
fn helm_3_and_4_render_the_same_objects() {
    let helms = [Helm::four(), Helm::three()];
    for values in ways() {
        let rendered = helms
            .each_ref()
            .map(|helm| helm.objects(&Release::usual(), &values));
        assert_eq!(rendered[0], rendered[1], "{values}");
    }
}

#[test]
fn templates_ask_no_cluster_no_clock_and_no_dice() {
    let forbidden = [
        "lookup ",
        "rand",
        "genCA",
        "genSelfSignedCert",
        "genSignedCert",
        "genPrivateKey",
        "uuidv4",
        "now ",
        "htpasswd",
        "derivePassword",
    ];
    for file in templates() {
        let text = text_of(&file);
        let actions = text
            .split("{{")
            .skip(1)
            .filter_map(|rest| rest.split("}}").next());
        for action in actions {
            let found = forbidden.iter().find(|word| action.contains(**word));
            assert_eq!(found, None, "{file}: {action}");
        }
    }
}

fn templates() -> Vec<String> {
    let folder = "charts/zonewise/templates";
    let entries = ["", "/tests"].map(|inner| {
        std::fs::read_dir(root().join(format!("{folder}{inner}"))).expect("there are templates")
    });
    let files = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().is_file());
    let files: Vec<String> = files
        .map(|entry| entry.path().display().to_string())
        .collect();
    assert!(files.len() > 15, "{files:?}");
    files
}

fn rendered(values: &Value) -> Objects {
    Helm::four().objects(&Release::usual(), values)
}

#[test]
fn the_ca_bundle_is_left_to_whoever_makes_the_certificate() {
    let client_config = |mode: &str| {
        let objects = rendered(&certificates(mode));
        objects.the("MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"].clone()
    };
    let service =
        json!({"name": "zonewise", "namespace": "zonewise", "path": "/mutate", "port": 443});
    assert_eq!(client_config("self-managed"), json!({"service": service}));
    assert_eq!(client_config("cert-manager"), json!({"service": service}));
    assert_eq!(
        client_config("provided"),
        json!({"service": service, "caBundle": base64(CA)})
    );
}

#[test]
fn cert_manager_is_told_whose_ca_to_inject() {
    let objects = rendered(&certificates("cert-manager"));
    let annotations = &objects.the("MutatingWebhookConfiguration")["metadata"]["annotations"];
    assert_eq!(
        annotations["cert-manager.io/inject-ca-from"],
        "zonewise/zonewise-cert-manager"
    );
    let own_issuer = merged(
        &certificates("cert-manager"),
        &json!({"certificates": {"certManager": {"issuerRef": {"name": "corp", "kind": "ClusterIssuer"}}}}),
    );
    let objects = rendered(&own_issuer);
    assert!(objects.all("Issuer").is_empty());
    assert_eq!(
        objects.the("Certificate")["spec"]["issuerRef"],
        json!({"name": "corp", "kind": "ClusterIssuer"})
    );
}

#[test]
fn the_ca_that_cert_manager_renews_keeps_its_key_and_the_server_gets_another() {
    let objects = rendered(&certificates("cert-manager"));
    let certificates = objects.all("Certificate");
    let policy = |is_ca: bool| {
        let mut found = certificates.iter().map(|certificate| &certificate["spec"]);
        let found = found.find(|spec| spec["isCA"].is_null() != is_ca);
        found.expect("there is one")["privateKey"]["rotationPolicy"].clone()
    };
    assert_eq!(
        (policy(true), policy(false)),
        (json!("Never"), json!("Always"))
    );
}

#[test]
fn pods_stay_on_linux_unless_told_otherwise() {
    let pods = |values: &Value| {
        let objects = rendered(values);
        let deployment = objects.the("Deployment")["spec"]["template"]["spec"].clone();
        [deployment, test_pod(&objects)["spec"].clone()].map(|pod| pod["nodeSelector"].clone())
    };
    let linux = json!({"kubernetes.io/os": "linux"});
    assert_eq!(pods(&json!({})), [linux.clone(), linux]);
    let ssd = json!({"nodeSelector": {"disk": "ssd"}});
    let both = json!({"kubernetes.io/os": "linux", "disk": "ssd"});
    assert_eq!(pods(&ssd), [both.clone(), both]);
    let anywhere = json!({"nodeSelector": {"kubernetes.io/os": null}});
    assert_eq!(pods(&anywhere), [Value::Null, Value::Null]);
}

fn whole_numbers_stay_whole_from_a_million_on(helm: &Helm) {
    const MANY: i64 = 10_000_000;
    let values = json!({
        "replicaCount": MANY,
        "revisionHistoryLimit": MANY,
        "terminationGracePeriodSeconds": MANY,
        "podDisruptionBudget": {"maxUnavailable": MANY},
        "strategy": {"rollingUpdate": {"maxUnavailable": MANY, "maxSurge": MANY}},
        "startupProbe": {"initialDelaySeconds": MANY, "failureThreshold": MANY},
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": MANY}],
        "extraArgs": ["--max-body-bytes=10000000"],
        "certificates": {"selfManaged": {"certificateLifetime": "438000h", "caLifetime": "876000h"}},
        "prometheusRule": {"enabled": true, "certificateExpiryHours": 140_000},
    });
    let text = helm
        .template(&Release::usual(), &values)
        .expect("it renders");
    let float = text.lines().find(|line| line.contains("e+"));
    assert_eq!(float, None);
    let objects = Objects::parse(&text);
    let spec = &objects.the("Deployment")["spec"];
    assert_eq!(
        (&spec["replicas"], &spec["revisionHistoryLimit"]),
        (&json!(MANY), &json!(MANY))
    );
    assert_eq!(
        spec["template"]["spec"]["terminationGracePeriodSeconds"],
        MANY
    );
    assert_eq!(
        objects.the("PodDisruptionBudget")["spec"]["maxUnavailable"],
        MANY
    );
    assert_eq!(objects.flag("--max-body-bytes"), Some("10000000"));
    assert!(
        objects
            .the("PrometheusRule")
            .to_string()
            .contains("< 504000000")
    );
}

#[test]
fn off_has_no_webhook_configuration_no_pod_and_no_permission() {
    // Unquoted, Off is false in YAML; --set gives the word.
    for mode in [json!(false), json!("Off")] {
        let objects = rendered(&json!({"mode": mode}));
        assert!(objects.all("MutatingWebhookConfiguration").is_empty());
        assert!(objects.hooks().is_empty());
        assert_eq!(objects.flag("--mode"), Some("Off"));
        assert_eq!(objects.the("Deployment")["spec"]["replicas"], 0);
        for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
            assert!(objects.all(kind).is_empty(), "{kind}");
        }
    }
    let off = std::path::Path::new("off.yaml");
    let folder = tempfile::TempDir::new().expect("a temporary folder can be made");
    let file = folder.path().join(off);
    std::fs::write(&file, "mode: Off\nvalidation: {mode: off}\n").expect("the file can be written");
    let text = Helm::four()
        .template_file(&Release::usual(), &file)
        .expect("unquoted words are understood");
    assert!(text.contains("--mode=Off"));
}

#[test]
fn the_webhook_fails_open_and_asks_for_slices_alone() {
    let objects = rendered(&json!({}));
    let webhook = &objects.the("MutatingWebhookConfiguration")["webhooks"][0];
    assert_eq!(webhook["name"], "endpointslices.zonewise.dev");
    for (field, value) in [
        ("failurePolicy", json!("Ignore")),
        ("timeoutSeconds", json!(1)),
        ("sideEffects", json!("None")),
        ("matchPolicy", json!("Equivalent")),
        ("reinvocationPolicy", json!("Never")),
        ("admissionReviewVersions", json!(["v1"])),
    ] {
        assert_eq!(webhook[field], value, "{field}");
    }
    let rule = json!({
        "apiGroups": ["discovery.k8s.io"],
        "apiVersions": ["v1"],
        "resources": ["endpointslices"],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    });
    assert_eq!(webhook["rules"], json!([rule]));
}

#[test]
fn a_port_below_1024_asks_for_the_pods_own_setting_and_not_for_a_capability() {
    let objects = rendered(&json!({"ports": {"webhook": 443}}));
    let pod = &objects.the("Deployment")["spec"]["template"]["spec"];
    let sysctls = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "443"}]);
    assert_eq!(pod["securityContext"]["sysctls"], sysctls);
    assert_eq!(
        pod["containers"][0]["securityContext"]["capabilities"],
        json!({"drop": ["ALL"]})
    );
    assert_eq!(
        rendered(&json!({})).the("Deployment")["spec"]["template"]["spec"]["securityContext"]["sysctls"],
        Value::Null
    );
}

#[test]
fn on_the_hosts_network_no_two_replicas_share_a_node() {
    let objects = rendered(&json!({"hostNetwork": true}));
    let pod = &objects.the("Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["dnsPolicy"], "ClusterFirstWithHostNet");
    let required =
        &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required[0]["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(
        required[0]["labelSelector"],
        objects.the("Deployment")["spec"]["selector"]
    );
    assert_eq!(
        rendered(&json!({})).the("Deployment")["spec"]["template"]["spec"]["affinity"],
        Value::Null
    );
}

#[test]
fn the_new_pod_comes_first_but_on_the_hosts_network_unless_told_otherwise() {
    let rolling = |values: &Value| {
        let objects = rendered(values);
        let rolling = &objects.the("Deployment")["spec"]["strategy"]["rollingUpdate"];
        (
            rolling["maxUnavailable"].clone(),
            rolling["maxSurge"].clone(),
        )
    };
    assert_eq!(rolling(&json!({})), (json!(0), json!(1)));
    let on_host =
        |rolling: Value| json!({"hostNetwork": true, "strategy": {"rollingUpdate": rolling}});
    assert_eq!(rolling(&on_host(json!({}))), (json!(1), json!(0)));
    let half = on_host(json!({"maxSurge": "50%"}));
    assert_eq!(rolling(&half), (json!(1), json!("50%")));
    let as_elsewhere = on_host(json!({"maxUnavailable": 0, "maxSurge": 1}));
    assert_eq!(rolling(&as_elsewhere), (json!(0), json!(1)));
}

#[test]
fn ports_are_the_same_wherever_they_stand() {
    let values = merged(
        &everything(),
        &json!({"ports": {"webhook": 10250, "metrics": 9090}, "service": {"port": 8443}}),
    );
    let objects = rendered(&values);
    assert_eq!(objects.flag("--webhook-bind-address"), Some("[::]:10250"));
    assert_eq!(objects.flag("--metrics-bind-address"), Some("[::]:9090"));
    let template = &objects.the("Deployment")["spec"]["template"];
    let annotations = &template["metadata"]["annotations"];
    for mesh in [
        "config.linkerd.io/skip-inbound-ports",
        "traffic.sidecar.istio.io/excludeInboundPorts",
        "traffic.kuma.io/exclude-inbound-ports",
    ] {
        assert_eq!(annotations[mesh], "10250", "{mesh}");
    }
    let container = &template["spec"]["containers"][0];
    assert_eq!(container["ports"][0]["containerPort"], 10250);
    assert_eq!(container["ports"][1]["containerPort"], 9090);
    assert_eq!(
        container["readinessProbe"]["httpGet"],
        json!({"path": "/readyz", "port": "metrics"})
    );
    let ingress =
        json!([{"ports": [{"port": 10250, "protocol": "TCP"}, {"port": 9090, "protocol": "TCP"}]}]);
    assert_eq!(objects.the("NetworkPolicy")["spec"]["ingress"], ingress);
    assert_eq!(
        objects.the("NetworkPolicy")["spec"]["policyTypes"],
        json!(["Ingress"])
    );
    let ports = &objects.the("Service")["spec"]["ports"];
    assert_eq!(
        (&ports[0]["port"], &ports[0]["targetPort"]),
        (&json!(8443), &json!("webhook"))
    );
    let client_config = &objects.the("MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"];
    assert_eq!(client_config["service"]["port"], 8443);
}

#[test]
fn common_labels_never_change_what_selects_pods() {
    let values = json!({"commonLabels": {"app.kubernetes.io/name": "x", "app.kubernetes.io/instance": "y", "team": "net"}, "podLabels": {"app.kubernetes.io/name": "z"}});
    let objects = rendered(&values);
    let selector =
        json!({"app.kubernetes.io/name": "zonewise", "app.kubernetes.io/instance": "zonewise"});
    let deployment = objects.the("Deployment");
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], selector);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/name"], "zonewise");
    assert_eq!(labels["app.kubernetes.io/instance"], "zonewise");
    assert_eq!(labels["team"], "net");
    assert_eq!(objects.the("Service")["spec"]["selector"], selector);
}

/// The pod of `helm test`.
pub fn test_pod(objects: &Objects) -> &Value {
    let hooks = objects.hooks();
    let pod = hooks.into_iter().find(|hook| hook["kind"] == "Pod");
    pod.expect("there is a pod")
}

#[test]
fn the_pod_of_helm_test_is_no_replica() {
    let objects = rendered(&json!({}));
    let pod = test_pod(&objects);
    let selector = objects.the("Service")["spec"]["selector"]
        .as_object()
        .expect("a selector is a map");
    let labels = &pod["metadata"]["labels"];
    assert!(
        selector.iter().any(|(key, value)| labels[key] != *value),
        "{labels}"
    );
}

#[test]
fn the_chart_is_of_the_programs_version() {
    let chart: Value =
        serde_saphyr::from_str(&text_of("charts/zonewise/Chart.yaml")).expect("Chart.yaml is YAML");
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    let image = format!("ghcr.io/zonewise/zonewise:{}", env!("CARGO_PKG_VERSION"));
    assert!(
        chart["annotations"]["artifacthub.io/images"]
            .as_str()
            .expect("images are named")
            .contains(&image)
    );
    let objects = rendered(&json!({}));
    assert_eq!(
        objects.the("Deployment")["spec"]["template"]["spec"]["containers"][0]["image"],
        image.as_str()
    );
}
