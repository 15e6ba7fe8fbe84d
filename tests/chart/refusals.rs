//! Values that are refused, and in which words.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::helm::{Helm, Release};
use super::values::{CA, at, certificates, merged, ways};

/// Asserts that helm refuses the values with these words.
pub fn refused(values: &Value, words: &str) {
    for helm in Helm::all() {
        let said = helm.template(&Release::usual(), values);
        let said = said.expect_err(&format!("{values} is refused"));
        assert!(said.contains(words), "{values}: {said:?} has no {words:?}");
    }
}

#[test]
fn names_that_there_are_not() {
    refused(
        &json!({"replicas": 3}),
        "at '': additional properties 'replicas' not allowed",
    );
    refused(
        &json!({"image": {"name": "x"}}),
        "at '/image': additional properties 'name' not allowed",
    );
    refused(
        &json!({"livenessProbe": {"httpGet": {}}}),
        "at '/livenessProbe': additional properties 'httpGet' not allowed",
    );
    refused(
        &json!({"webhook": {"objectSelector": {"hints": "enabled"}}}),
        "at '/webhook/objectSelector': additional properties 'hints' not allowed",
    );
}

#[test]
fn types_that_do_not_fit() {
    refused(
        &json!({"replicaCount": "two"}),
        "at '/replicaCount': got string, want integer",
    );
    refused(
        &json!({"replicaCount": 0}),
        "at '/replicaCount': minimum: got 0, want 1",
    );
    refused(
        &json!({"hostNetwork": "yes"}),
        "at '/hostNetwork': got string, want boolean",
    );
    refused(
        &json!({"image": {"tag": 1.5}}),
        "at '/image/tag': got number, want string",
    );
    refused(
        &json!({"commonLabels": {"team": 7}}),
        "at '/commonLabels/team': got number, want string",
    );
    refused(
        &json!({"extraArgs": "--drift-pace=5"}),
        "at '/extraArgs': got string, want array",
    );
    refused(
        &json!({"ports": {"webhook": 70000}}),
        "at '/ports/webhook': maximum: got 70,000, want 65,535",
    );
}

#[test]
fn words_that_mean_nothing() {
    let modes = "at '/mode': value must be one of 'Active', 'Observe', 'Off', false";
    refused(&json!({"mode": "active"}), modes);
    refused(&json!({"mode": true}), modes);
    refused(
        &json!({"certificates": {"mode": "manual"}}),
        "at '/certificates/mode': value must be one of 'self-managed', 'cert-manager', 'provided'",
    );
    for grace in [json!("60"), json!(60)] {
        refused(
            &json!({"nodeGrace": grace}),
            "nodeGrace is \"60\": set it to a duration such as 60s, 90m or 1h30m, hours first.",
        );
    }
    refused(
        &json!({"fullnameOverride": "1st"}),
        "fullnameOverride is \"1st\": set it to a name of lower-case letters, digits and dashes",
    );
    refused(
        &json!({"fullnameOverride": "a".repeat(64)}),
        "at '/fullnameOverride': maxLength: got 64, want 63",
    );
    refused(
        &json!({"extraArgs": ["drift-pace=5"]}),
        "extraArgs has \"drift-pace=5\": write it as --flag=value",
    );
    refused(
        &json!({"certificates": {"provided": {"caBundle": "LS0tLS1CRUdJTg=="}}}),
        "certificates.provided.caBundle is \"LS0tLS1CRUdJTg==\": give the certificates as PEM",
    );
    refused(
        &json!({"podDisruptionBudget": {"maxUnavailable": 0}}),
        "at '/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1",
    );
    refused(
        &json!({"podDisruptionBudget": {"maxUnavailable": "0%"}}),
        "podDisruptionBudget.maxUnavailable is \"0%\": set it to a number from 1 on or to a percentage",
    );
    refused(
        &json!({"service": {"ipFamilies": ["IPv4", "IPv4"]}}),
        "at '/service/ipFamilies': items at 0 and 1 are equal",
    );
}

#[test]
fn groups_that_are_taken_away() {
    refused(
        &json!({"certificates": null}),
        "at '': missing property 'certificates'",
    );
    refused(
        &json!({"webhook": {"timeoutSeconds": null}}),
        "at '/webhook': missing property 'timeoutSeconds'",
    );
}

#[test]
fn what_would_stop_a_cluster() {
    refused(
        &at("webhook.failurePolicy", json!("Fail")),
        "webhook.failurePolicy is Fail: it must be Ignore, or no EndpointSlice of the cluster could be written",
    );
}

#[test]
fn ports_that_clash() {
    refused(
        &at("ports.metrics", json!(8443)),
        "ports.webhook and ports.metrics are both 8443: give each its own.",
    );
    refused(
        &at("service.metricsPort", json!(443)),
        "service.port and service.metricsPort are both 443: give each its own.",
    );
    refused(
        &json!({"hostNetwork": true, "ports": {"webhook": 443}}),
        "ports.webhook or ports.metrics is below 1024 with hostNetwork: only root may open it on a node",
    );
}

#[test]
fn certificates_from_nowhere_and_from_two_places() {
    refused(
        &at("certificates.mode", json!("provided")),
        "certificates.mode is provided, but certificates.provided.secretName is empty: name the Secret",
    );
    refused(
        &json!({"certificates": {"mode": "provided", "provided": {"secretName": "mine"}}}),
        "certificates.provided.caBundle is empty and webhook.annotations has nothing that would inject it",
    );
    refused(
        &at("certificates.provided.caBundle", json!(CA)),
        "certificates.provided is set, but certificates.mode is self-managed: set certificates.mode=provided",
    );
    refused(
        &at("controller.enabled", json!(false)),
        "controller.enabled is false, but certificates.mode is self-managed: the replica that leads makes",
    );
    refused(
        &at("certificates.certManager.issuerRef.name", json!("corp")),
        "certificates.certManager.issuerRef is set, but certificates.mode is self-managed",
    );
    refused(
        &merged(
            &certificates("cert-manager"),
            &at(
                "certificates.certManager.issuerRef.kind",
                json!("ClusterIssuer"),
            ),
        ),
        "certificates.certManager.issuerRef has no name: set certificates.certManager.issuerRef.name",
    );
    refused(
        &at(
            "clientAuthentication.subjectNames",
            json!(["kube-apiserver"]),
        ),
        "clientAuthentication.subjectNames is set without clientAuthentication.caConfigMap",
    );
}

#[test]
fn lifetimes_that_outlive_each_other() {
    refused(
        &at("certificates.selfManaged.caLifetime", json!("4000h")),
        "certificates.selfManaged.caLifetime (4000h) is less than twice certificates.selfManaged.certificateLifetime (2160h)",
    );
    refused(
        &at("certificates.certManager.renewBefore", json!("2160h")),
        "certificates.certManager.renewBefore (2160h) is not less than certificates.certManager.duration (2160h).",
    );
    refused(
        &at("certificates.certManager.caDuration", json!("3000h")),
        "certificates.certManager.caDuration (3000h) is less than twice certificates.certManager.duration (2160h).",
    );
    let century = json!({"certificates": {"selfManaged": {"certificateLifetime": "876000h", "caLifetime": "876000h"}}});
    refused(
        &century,
        "Set certificates.selfManaged.certificateLifetime to 438000h or less.",
    );
    refused(
        &at("certificates.selfManaged.caLifetime", json!("365d")),
        "certificates.selfManaged.caLifetime is \"365d\": set it to whole hours from 1h to 876000h",
    );
}

#[test]
fn flags_and_variables_that_other_values_set() {
    for flag in [
        "--mode=Off",
        "--tls-cert-file=x",
        "--webhook-bind-address=x",
        "--certificate-secret=x",
        "--kubeconfig=x",
    ] {
        let (name, _) = flag.split_once('=').expect("a flag has a value");
        refused(
            &json!({"extraArgs": [flag]}),
            &format!("extraArgs has {name}, which the chart sets"),
        );
    }
    refused(
        &json!({"extraArgs": ["--drift-pace=1", "--drift-pace=2"]}),
        "extraArgs has --drift-pace twice: leave one of them out.",
    );
    refused(
        &json!({"extraArgs": ["--foo=1"]}),
        "extraArgs has --foo, which is no flag of this version",
    );
    refused(
        &json!({"extraArgs": ["--node-grace=1s"]}),
        "extraArgs has --node-grace, which the chart sets: set nodeGrace in its place.",
    );
    for name in ["ZONEWISE_KEEP_OVERLOAD", "ZONEWISE_KEEP_IN_ZONE"] {
        let flag = name
            .replace("ZONEWISE", "-")
            .replace('_', "-")
            .to_lowercase();
        refused(
            &json!({"extraEnv": [{"name": name, "value": "0"}]}),
            &format!("extraEnv has {name}: give {flag} in extraArgs"),
        );
    }
    for name in [
        "ZONEWISE_MODE",
        "ZONEWISE_REPLICA_NAME",
        "ZONEWISE_TLS_CERT_FILE",
    ] {
        let values = json!({"extraEnv": [{"name": name, "value": "x"}]});
        refused(
            &values,
            &format!("extraEnv has {name}, which the chart sets"),
        );
    }
    refused(
        &json!({"extraVolumes": [{"name": "certificates", "emptyDir": {}}]}),
        "extraVolumes has certificates, a name that the chart uses: choose another.",
    );
}

#[test]
fn every_flag_that_the_chart_ever_sets() {
    let client = json!({"clientAuthentication": {"caConfigMap": "ca", "subjectNames": ["a"]}});
    let rendered = ways().into_iter().flat_map(|way| {
        let objects = Helm::four().objects(&Release::usual(), &merged(&way, &client));
        let flags = objects.arguments().split_off(1);
        let names = flags.into_iter().filter_map(|flag| flag.split('=').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    });
    let mut flags: BTreeSet<String> = rendered.collect();
    assert!(flags.len() > 20, "{flags:?}");
    let sometimes = [
        "--replica-name",
        "--validating-webhook-configuration",
        "--capacity-node-selector",
    ];
    flags.extend(sometimes.map(str::to_owned));
    let arguments: Vec<String> = flags.iter().map(|flag| format!("{flag}=x")).collect();
    for values in [json!({}), certificates("provided")] {
        let values = merged(&values, &json!({"extraArgs": arguments}));
        let said = Helm::four().template(&Release::usual(), &values);
        let said = said.expect_err("it is refused");
        for flag in &flags {
            let words = format!("extraArgs has {flag}, which the chart sets");
            assert!(said.contains(&words), "{said:?} has no {words:?}");
        }
    }
}

#[test]
fn a_ca_that_two_would_put_in_and_one_that_nobody_would() {
    let annotated =
        |key: &str, rest: Value| merged(&rest, &json!({"webhook": {"annotations": {key: "x"}}}));
    let without_bundle =
        json!({"certificates": {"mode": "provided", "provided": {"secretName": "mine"}}});
    for key in ["admissions.enforcer/disabled", "example.com/owner"] {
        refused(
            &annotated(key, without_bundle.clone()),
            "certificates.provided.caBundle is empty and webhook.annotations has nothing that would inject it",
        );
    }
    for key in [
        "cert-manager.io/inject-ca-from",
        "cert-manager.io/inject-ca-from-secret",
        "cert-manager.io/inject-apiserver-ca",
        "service.beta.openshift.io/inject-cabundle",
    ] {
        Helm::four().objects(&Release::usual(), &annotated(key, without_bundle.clone()));
        refused(
            &annotated(key, certificates("provided")),
            &format!(
                "certificates.provided.caBundle is set, and webhook.annotations has {key}, which would inject another"
            ),
        );
        refused(
            &annotated(key, json!({})),
            &format!(
                "webhook.annotations has {key}, but certificates.mode is self-managed: zonewise and the injector"
            ),
        );
        refused(
            &json!({"commonAnnotations": {key: "true"}}),
            &format!("commonAnnotations has {key}, but certificates.mode is self-managed"),
        );
        refused(
            &annotated(key, certificates("cert-manager")),
            &format!(
                "webhook.annotations has {key}, but certificates.mode is cert-manager, which has its own CA injected"
            ),
        );
    }
}

#[test]
fn pods_that_could_not_be() {
    refused(
        &json!({"dnsPolicy": "None"}),
        "dnsPolicy is None, but dnsConfig.nameservers is empty",
    );
    let volume = json!({"name": "scratch", "emptyDir": {}});
    refused(
        &json!({"extraVolumes": [volume, volume]}),
        "extraVolumes has scratch twice",
    );
    refused(
        &json!({"global": {"imagePullSecrets": "mine"}}),
        "global.imagePullSecrets is \"mine\": set it to a list of names",
    );
    for much in ["00%", "200%"] {
        refused(
            &at("strategy.rollingUpdate.maxUnavailable", json!(much)),
            &format!("strategy.rollingUpdate.maxUnavailable is \"{much}\""),
        );
    }
    refused(
        &at("podDisruptionBudget.maxUnavailable", json!("300%")),
        "podDisruptionBudget.maxUnavailable is \"300%\"",
    );
    refused(
        &at("shutdownDelaySeconds", json!(20)),
        "terminationGracePeriodSeconds (30) is not more than shutdownDelaySeconds (20) and the 10 seconds",
    );
    refused(
        &at("strategy.rollingUpdate.maxSurge", json!(0)),
        "strategy.rollingUpdate.maxUnavailable and strategy.rollingUpdate.maxSurge are both 0",
    );
    refused(
        &json!({"hostNetwork": true, "strategy": {"rollingUpdate": {"maxUnavailable": 0}}}),
        "Set one of them to 1 or more. With hostNetwork maxSurge is 0 unless you set it.",
    );
    refused(
        &json!({"hostNetwork": true, "networkPolicy": {"enabled": true}}),
        "networkPolicy.enabled has no effect on pods with hostNetwork",
    );
    refused(
        &at("service.ipFamilies", json!(["IPv4", "IPv6"])),
        "service.ipFamilies names two families: set service.ipFamilyPolicy",
    );
    refused(
        &at("serviceAccount.create", json!(false)),
        "serviceAccount.create is false and serviceAccount.name is empty: name the ServiceAccount to use.",
    );
}

#[test]
fn monitoring_that_would_cry_wolf() {
    refused(
        &at("serviceMonitor.scrapeTimeout", json!("1m")),
        "serviceMonitor.scrapeTimeout (1m) is more than serviceMonitor.interval (30s)",
    );
    refused(
        &json!({"prometheusRule": {"enabled": true, "disabled": ["ZonewiseGone"]}}),
        "prometheusRule.disabled has ZonewiseGone, which is no alert of this chart: there are ZonewiseDown,",
    );
    refused(
        &json!({"prometheusRule": {"enabled": true}, "certificates": {"selfManaged": {"certificateLifetime": "24h"}}}),
        "prometheusRule.certificateExpiryHours (168) is not less than a third of",
    );
    refused(
        &merged(
            &certificates("cert-manager"),
            &json!({"prometheusRule": {"enabled": true}, "certificates": {"certManager": {"renewBefore": "24h"}}}),
        ),
        "prometheusRule.certificateExpiryHours (168) is not less than certificates.certManager.renewBefore (24h)",
    );
}

#[test]
fn certificates_of_hours_need_no_alert_that_would_cry_wolf() {
    let short = json!({"prometheusRule": {"enabled": true}, "certificates": {"selfManaged": {"certificateLifetime": "3h"}}});
    let earliest = merged(
        &short,
        &json!({"prometheusRule": {"certificateExpiryHours": 1}}),
    );
    refused(
        &earliest,
        "prometheusRule.certificateExpiryHours (1) is not less than a third of",
    );
    let disabled = json!({"prometheusRule": {"disabled": ["ZonewiseCertificateExpiresSoon"]}});
    for short in [
        short,
        merged(
            &certificates("cert-manager"),
            &json!({"prometheusRule": {"enabled": true}, "certificates": {"certManager": {"renewBefore": "1h"}}}),
        ),
    ] {
        let objects = Helm::four().objects(&Release::usual(), &merged(&short, &disabled));
        let rules = objects.the("PrometheusRule").to_string();
        assert!(!rules.contains("ExpiresSoon") && rules.contains("ZonewiseDown"));
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let values = json!({"ports": {"metrics": 8443}, "serviceAccount": {"create": false}});
    refused(&values, "ports.webhook and ports.metrics are both 8443");
    refused(&values, "serviceAccount.create is false");
    let values = json!({"nodeGrace": "60", "log": {"level": "loud"}});
    refused(&values, "nodeGrace is \"60\"");
    refused(&values, "log.level is \"loud\"");
}
