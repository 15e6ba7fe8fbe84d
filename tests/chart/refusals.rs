//! Values that are refused, and in which words.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::helm::{Helm, Release};
use super::values::{CA, at, certificates, merged, ways};

/// Asserts that helm refuses the values with these words.
pub fn refused(helm: &Helm, values: &Value, words: &str) {
    let said = helm.template(&Release::usual(), values);
    let said = said.expect_err(&format!("{values} is refused"));
    assert!(said.contains(words), "{values}: {said:?} has no {words:?}");
}

each_helm!(
    unknown_names,
    wrong_types,
    invalid_words,
    removed_groups,
    a_webhook_that_fails_closed,
    ports_that_clash,
    certificates_without_a_source_or_with_two,
    lifetimes_that_outlive_each_other,
    flags_and_variables_that_other_values_set,
    a_ca_bundle_without_an_injector_or_with_two,
    pods_that_cannot_run,
    monitoring_that_raises_false_alarms,
    certificates_of_hours_need_no_alert_that_raises_false_alarms,
    all_faults_are_reported_at_once,
);

fn unknown_names(helm: &Helm) {
    refused(
        helm,
        &json!({"replicas": 3}),
        "at '': additional properties 'replicas' not allowed",
    );
    refused(
        helm,
        &json!({"image": {"name": "x"}}),
        "at '/image': additional properties 'name' not allowed",
    );
    refused(
        helm,
        &json!({"livenessProbe": {"httpGet": {}}}),
        "at '/livenessProbe': additional properties 'httpGet' not allowed",
    );
    refused(
        helm,
        &json!({"webhook": {"objectSelector": {"hints": "enabled"}}}),
        "at '/webhook/objectSelector': additional properties 'hints' not allowed",
    );
}

fn wrong_types(helm: &Helm) {
    refused(
        helm,
        &json!({"replicaCount": "two"}),
        "at '/replicaCount': got string, want integer",
    );
    refused(
        helm,
        &json!({"replicaCount": 0}),
        "at '/replicaCount': minimum: got 0, want 1",
    );
    refused(
        helm,
        &json!({"hostNetwork": "yes"}),
        "at '/hostNetwork': got string, want boolean",
    );
    refused(
        helm,
        &json!({"image": {"tag": 1.5}}),
        "at '/image/tag': got number, want string",
    );
    refused(
        helm,
        &json!({"commonLabels": {"team": 7}}),
        "at '/commonLabels/team': got number, want string",
    );
    refused(
        helm,
        &json!({"extraArgs": "--drift-pace=5"}),
        "at '/extraArgs': got string, want array",
    );
    refused(
        helm,
        &json!({"ports": {"webhook": 70000}}),
        "at '/ports/webhook': maximum: got 70,000, want 65,535",
    );
}

fn invalid_words(helm: &Helm) {
    let modes = "at '/mode': value must be one of 'Active', 'Observe', 'Off', false";
    refused(helm, &json!({"mode": "active"}), modes);
    refused(helm, &json!({"mode": true}), modes);
    refused(
        helm,
        &json!({"certificates": {"mode": "manual"}}),
        "at '/certificates/mode': value must be one of 'self-managed', 'cert-manager', 'provided'",
    );
    for grace in [json!("60"), json!(60)] {
        refused(
            helm,
            &json!({"nodeGrace": grace}),
            "nodeGrace is \"60\": set it to a duration such as 60s, 90m or 1h30m, hours first.",
        );
    }
    refused(
        helm,
        &json!({"fullnameOverride": "1st"}),
        "fullnameOverride is \"1st\": set it to a name of lower-case letters, digits and dashes",
    );
    refused(
        helm,
        &json!({"fullnameOverride": "a".repeat(64)}),
        "at '/fullnameOverride': maxLength: got 64, want 63",
    );
    refused(
        helm,
        &json!({"extraArgs": ["drift-pace=5"]}),
        "extraArgs has \"drift-pace=5\": write it as --flag=value",
    );
    refused(
        helm,
        &json!({"certificates": {"provided": {"caBundle": "LS0tLS1CRUdJTg=="}}}),
        "certificates.provided.caBundle is \"LS0tLS1CRUdJTg==\": give the certificates as PEM",
    );
    refused(
        helm,
        &json!({"podDisruptionBudget": {"maxUnavailable": 0}}),
        "at '/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1",
    );
    refused(
        helm,
        &json!({"podDisruptionBudget": {"maxUnavailable": "0%"}}),
        "podDisruptionBudget.maxUnavailable is \"0%\": set it to a number from 1 on or to a percentage",
    );
    refused(
        helm,
        &json!({"service": {"ipFamilies": ["IPv4", "IPv4"]}}),
        "at '/service/ipFamilies': items at 0 and 1 are equal",
    );
}

fn removed_groups(helm: &Helm) {
    refused(
        helm,
        &json!({"certificates": null}),
        "at '': missing property 'certificates'",
    );
    refused(
        helm,
        &json!({"webhook": {"timeoutSeconds": null}}),
        "at '/webhook': missing property 'timeoutSeconds'",
    );
}

fn a_webhook_that_fails_closed(helm: &Helm) {
    refused(
        helm,
        &at("webhook.failurePolicy", json!("Fail")),
        "webhook.failurePolicy is Fail: it must be Ignore, or no EndpointSlice of the cluster could be written",
    );
}

fn ports_that_clash(helm: &Helm) {
    refused(
        helm,
        &at("ports.metrics", json!(8443)),
        "ports.webhook and ports.metrics are both 8443: give each its own.",
    );
    refused(
        helm,
        &at("service.metricsPort", json!(443)),
        "service.port and service.metricsPort are both 443: give each its own.",
    );
    refused(
        helm,
        &json!({"hostNetwork": true, "ports": {"webhook": 443}}),
        "ports.webhook or ports.metrics is below 1024 with hostNetwork: only root may open it on a node",
    );
}

fn certificates_without_a_source_or_with_two(helm: &Helm) {
    refused(
        helm,
        &at("certificates.mode", json!("provided")),
        "certificates.mode is provided, but certificates.provided.secretName is empty: name the Secret",
    );
    refused(
        helm,
        &json!({"certificates": {"mode": "provided", "provided": {"secretName": "mine"}}}),
        "certificates.provided.caBundle is empty and webhook.annotations has nothing that would inject it",
    );
    refused(
        helm,
        &at("certificates.provided.caBundle", json!(CA)),
        "certificates.provided is set, but certificates.mode is self-managed: set certificates.mode=provided",
    );
    refused(
        helm,
        &at("controller.enabled", json!(false)),
        "controller.enabled is false, but certificates.mode is self-managed: the replica that leads makes",
    );
    refused(
        helm,
        &at("certificates.certManager.issuerRef.name", json!("corp")),
        "certificates.certManager.issuerRef is set, but certificates.mode is self-managed",
    );
    refused(
        helm,
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
        helm,
        &at(
            "clientAuthentication.subjectNames",
            json!(["kube-apiserver"]),
        ),
        "clientAuthentication.subjectNames is set without clientAuthentication.caConfigMap",
    );
}

fn lifetimes_that_outlive_each_other(helm: &Helm) {
    refused(
        helm,
        &at("certificates.selfManaged.caLifetime", json!("4000h")),
        "certificates.selfManaged.caLifetime (4000h) is less than twice certificates.selfManaged.certificateLifetime (2160h)",
    );
    refused(
        helm,
        &at("certificates.certManager.renewBefore", json!("2160h")),
        "certificates.certManager.renewBefore (2160h) is not less than certificates.certManager.duration (2160h).",
    );
    refused(
        helm,
        &at("certificates.certManager.caDuration", json!("3000h")),
        "certificates.certManager.caDuration (3000h) is less than twice certificates.certManager.duration (2160h).",
    );
    let century = json!({"certificates": {"selfManaged": {"certificateLifetime": "876000h", "caLifetime": "876000h"}}});
    refused(
        helm,
        &century,
        "Set certificates.selfManaged.certificateLifetime to 438000h or less.",
    );
    refused(
        helm,
        &at("certificates.selfManaged.caLifetime", json!("365d")),
        "certificates.selfManaged.caLifetime is \"365d\": set it to whole hours from 1h to 876000h",
    );
}

fn flags_and_variables_that_other_values_set(helm: &Helm) {
    for flag in [
        "--mode=Off",
        "--tls-cert-file=x",
        "--webhook-bind-address=x",
        "--certificate-secret=x",
        "--kubeconfig=x",
    ] {
        let (name, _) = flag.split_once('=').expect("a flag has a value");
        refused(
            helm,
            &json!({"extraArgs": [flag]}),
            &format!("extraArgs has {name}, which the chart sets"),
        );
    }
    refused(
        helm,
        &json!({"extraArgs": ["--drift-pace=1", "--drift-pace=2"]}),
        "extraArgs has --drift-pace twice: leave one of them out.",
    );
    refused(
        helm,
        &json!({"extraArgs": ["--foo=1"]}),
        "extraArgs has --foo, which is no flag of this version",
    );
    refused(
        helm,
        &json!({"extraArgs": ["--node-grace=1s"]}),
        "extraArgs has --node-grace, which the chart sets: set nodeGrace in its place.",
    );
    for name in ["ZONEWISE_KEEP_OVERLOAD", "ZONEWISE_KEEP_IN_ZONE"] {
        let flag = name
            .replace("ZONEWISE", "-")
            .replace('_', "-")
            .to_lowercase();
        refused(
            helm,
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
            helm,
            &values,
            &format!("extraEnv has {name}, which the chart sets"),
        );
    }
    refused(
        helm,
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

fn a_ca_bundle_without_an_injector_or_with_two(helm: &Helm) {
    let annotated =
        |key: &str, rest: Value| merged(&rest, &json!({"webhook": {"annotations": {key: "x"}}}));
    let without_bundle =
        json!({"certificates": {"mode": "provided", "provided": {"secretName": "mine"}}});
    for key in ["admissions.enforcer/disabled", "example.com/owner"] {
        refused(
            helm,
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
        helm.objects(&Release::usual(), &annotated(key, without_bundle.clone()));
        refused(
            helm,
            &annotated(key, certificates("provided")),
            &format!(
                "certificates.provided.caBundle is set, and webhook.annotations has {key}, which would inject another"
            ),
        );
        refused(
            helm,
            &annotated(key, json!({})),
            &format!(
                "webhook.annotations has {key}, but certificates.mode is self-managed: zonewise and the injector"
            ),
        );
        refused(
            helm,
            &json!({"commonAnnotations": {key: "true"}}),
            &format!("commonAnnotations has {key}, but certificates.mode is self-managed"),
        );
        refused(
            helm,
            &annotated(key, certificates("cert-manager")),
            &format!(
                "webhook.annotations has {key}, but certificates.mode is cert-manager, which has its own CA injected"
            ),
        );
    }
}

fn pods_that_cannot_run(helm: &Helm) {
    refused(
        helm,
        &json!({"dnsPolicy": "None"}),
        "dnsPolicy is None, but dnsConfig.nameservers is empty",
    );
    let volume = json!({"name": "scratch", "emptyDir": {}});
    refused(
        helm,
        &json!({"extraVolumes": [volume, volume]}),
        "extraVolumes has scratch twice",
    );
    refused(
        helm,
        &json!({"global": {"imagePullSecrets": "mine"}}),
        "global.imagePullSecrets is \"mine\": set it to a list of names",
    );
    for much in ["00%", "200%"] {
        refused(
            helm,
            &at("strategy.rollingUpdate.maxUnavailable", json!(much)),
            &format!("strategy.rollingUpdate.maxUnavailable is \"{much}\""),
        );
    }
    refused(
        helm,
        &at("podDisruptionBudget.maxUnavailable", json!("300%")),
        "podDisruptionBudget.maxUnavailable is \"300%\"",
    );
    refused(
        helm,
        &at("shutdownDelaySeconds", json!(20)),
        "terminationGracePeriodSeconds (30) is not more than shutdownDelaySeconds (20) and the 10 seconds",
    );
    refused(
        helm,
        &at("strategy.rollingUpdate.maxSurge", json!(0)),
        "strategy.rollingUpdate.maxUnavailable and strategy.rollingUpdate.maxSurge are both 0",
    );
    refused(
        helm,
        &json!({"hostNetwork": true, "strategy": {"rollingUpdate": {"maxUnavailable": 0}}}),
        "Set one of them to 1 or more. With hostNetwork maxSurge is 0 unless you set it.",
    );
    refused(
        helm,
        &json!({"hostNetwork": true, "networkPolicy": {"enabled": true}}),
        "networkPolicy.enabled has no effect on pods with hostNetwork",
    );
    refused(
        helm,
        &at("service.ipFamilies", json!(["IPv4", "IPv6"])),
        "service.ipFamilies names two families: set service.ipFamilyPolicy",
    );
    refused(
        helm,
        &at("serviceAccount.create", json!(false)),
        "serviceAccount.create is false and serviceAccount.name is empty: name the ServiceAccount to use.",
    );
}

fn monitoring_that_raises_false_alarms(helm: &Helm) {
    refused(
        helm,
        &at("serviceMonitor.scrapeTimeout", json!("1m")),
        "serviceMonitor.scrapeTimeout (1m) is more than serviceMonitor.interval (30s)",
    );
    refused(
        helm,
        &json!({"prometheusRule": {"enabled": true, "disabled": ["ZonewiseGone"]}}),
        "prometheusRule.disabled has ZonewiseGone, which is no alert of this chart: there are ZonewiseDown,",
    );
    refused(
        helm,
        &json!({"prometheusRule": {"enabled": true}, "certificates": {"selfManaged": {"certificateLifetime": "24h"}}}),
        "prometheusRule.certificateExpiryHours (168) is not less than a third of",
    );
    refused(
        helm,
        &merged(
            &certificates("cert-manager"),
            &json!({"prometheusRule": {"enabled": true}, "certificates": {"certManager": {"renewBefore": "24h"}}}),
        ),
        "prometheusRule.certificateExpiryHours (168) is not less than certificates.certManager.renewBefore (24h)",
    );
}

fn certificates_of_hours_need_no_alert_that_raises_false_alarms(helm: &Helm) {
    let short = json!({"prometheusRule": {"enabled": true}, "certificates": {"selfManaged": {"certificateLifetime": "3h"}}});
    let earliest = merged(
        &short,
        &json!({"prometheusRule": {"certificateExpiryHours": 1}}),
    );
    refused(
        helm,
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
        let objects = helm.objects(&Release::usual(), &merged(&short, &disabled));
        let rules = objects.the("PrometheusRule").to_string();
        assert!(!rules.contains("ExpiresSoon") && rules.contains("ZonewiseDown"));
    }
}

fn all_faults_are_reported_at_once(helm: &Helm) {
    let values = json!({"ports": {"metrics": 8443}, "serviceAccount": {"create": false}});
    refused(
        helm,
        &values,
        "ports.webhook and ports.metrics are both 8443",
    );
    refused(helm, &values, "serviceAccount.create is false");
    let values = json!({"nodeGrace": "60", "log": {"level": "loud"}});
    refused(helm, &values, "nodeGrace is \"60\"");
    refused(helm, &values, "log.level is \"loud\"");
}
