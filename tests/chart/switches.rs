//! Each value of the chart, and another than its default.

use serde_json::{Value, json};

use super::values::{CA, at, certificates, everything, merged};

/// A value other than the default, and what must be set for it to matter.
pub struct Switch {
    pub path: &'static str,
    pub value: Value,
    with: Value,
}

impl Switch {
    /// The values without it and with it.
    pub fn values(&self) -> [Value; 2] {
        let without = self.with.clone();
        let with = merged(&without, &at(self.path, self.value.clone()));
        [without, with]
    }
}

fn switch(path: &'static str, value: Value) -> Switch {
    let group = path.split('.').next().unwrap_or_default();
    let optional = [
        "networkPolicy",
        "serviceMonitor",
        "prometheusRule",
        "grafanaDashboard",
    ]
    .contains(&group);
    let with = if optional && !path.ends_with(".enabled") {
        everything()
    } else {
        json!({})
    };
    Switch { path, value, with }
}

fn given(mut switch: Switch, with: &Value) -> Switch {
    switch.with = merged(&switch.with, with);
    switch
}

/// One for each value.
pub fn switches() -> Vec<Switch> {
    let groups = [
        names(),
        decisions(),
        image(),
        certificate(),
        webhook(),
        pods(),
        scheduling(),
        network(),
        permissions(),
        monitoring(),
    ];
    groups.into_iter().flatten().collect()
}

fn names() -> Vec<Switch> {
    vec![
        switch(
            "global",
            json!({"imageRegistry": "registry.example", "imagePullSecrets": ["pull", {"name": "too"}]}),
        ),
        switch("nameOverride", json!("other")),
        switch("fullnameOverride", json!("whole")),
        switch("namespaceOverride", json!("elsewhere")),
        switch(
            "commonLabels",
            json!({"team": "net", "app.kubernetes.io/name": "ignored"}),
        ),
        switch("commonAnnotations", json!({"example.com/owner": "net"})),
    ]
}

fn decisions() -> Vec<Switch> {
    vec![
        switch("mode", json!("Observe")),
        switch("validation.mode", json!("enforce")),
        switch("trafficDistribution", json!("Overlap")),
        switch("defaultMode", json!("Overlap")),
        switch("capacity", json!("nodes")),
        switch(
            "capacityNodeSelector",
            json!("pool=web,tier in (a,b),!spot"),
        ),
        switch("nodeInfoTolerance", json!(0.05)),
        switch("overloadThreshold", json!(0.35)),
        switch("nodeGrace", json!("1m30s")),
        switch("freezeNotReady", json!(1)),
        switch(
            "excludedNodeLabels",
            json!(["node-role.kubernetes.io/infra"]),
        ),
        switch("ignoredSliceManagers", json!(["mesh.example.com"])),
        given(
            switch("controller.enabled", json!(false)),
            &certificates("cert-manager"),
        ),
        switch("log.level", json!("zonewise=debug,kube=warn")),
        switch("log.format", json!("text")),
        switch(
            "extraArgs",
            json!(["--drift-pace=5", "--max-in-flight-bytes=128Mi"]),
        ),
    ]
}

fn image() -> Vec<Switch> {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    vec![
        switch("image.registry", json!("registry.example:5000")),
        switch("image.repository", json!("mirror/zonewise")),
        switch("image.tag", json!("next")),
        switch("image.digest", json!(digest)),
        switch("image.pullPolicy", json!("Always")),
        switch("imagePullSecrets", json!([{"name": "pull"}])),
    ]
}

fn certificate() -> Vec<Switch> {
    let manager = certificates("cert-manager");
    let provided = certificates("provided");
    let client = json!({"clientAuthentication": {"caConfigMap": "api-server-ca"}});
    vec![
        switch("certificates.mode", json!("cert-manager")),
        switch("certificates.selfManaged.certificateLifetime", json!("24h")),
        switch("certificates.selfManaged.caLifetime", json!("17520h")),
        given(
            switch(
                "certificates.certManager.issuerRef",
                json!({"name": "corp", "kind": "ClusterIssuer"}),
            ),
            &manager,
        ),
        given(
            switch("certificates.certManager.duration", json!("4320h")),
            &manager,
        ),
        given(
            switch("certificates.certManager.renewBefore", json!("360h")),
            &manager,
        ),
        given(
            switch("certificates.certManager.caDuration", json!("43800h")),
            &manager,
        ),
        given(
            switch("certificates.provided.secretName", json!("other")),
            &provided,
        ),
        given(
            switch("certificates.provided.caBundle", json!(CA.repeat(2))),
            &provided,
        ),
        switch("clientAuthentication.caConfigMap", json!("api-server-ca")),
        given(
            switch("clientAuthentication.caKey", json!("bundle.pem")),
            &client,
        ),
        given(
            switch(
                "clientAuthentication.subjectNames",
                json!(["kube-apiserver", "other"]),
            ),
            &client,
        ),
    ]
}

fn webhook() -> Vec<Switch> {
    let selector = json!({"matchLabels": {"zonewise.dev/hints": "enabled"}});
    let expression = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]});
    vec![
        switch("webhook.timeoutSeconds", json!(2)),
        // The only value that is taken.
        switch("webhook.failurePolicy", json!("Ignore")),
        switch("webhook.reinvocationPolicy", json!("IfNeeded")),
        switch("webhook.namespaceSelector", expression),
        switch("webhook.objectSelector", selector),
        switch(
            "webhook.annotations",
            json!({"admissions.enforcer/disabled": "true"}),
        ),
        switch("webhook.labels", json!({"tier": "admission"})),
    ]
}

fn pods() -> Vec<Switch> {
    vec![
        switch("replicaCount", json!(3)),
        switch(
            "strategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"}}),
        ),
        switch("revisionHistoryLimit", json!(0)),
        switch("podDisruptionBudget.enabled", json!(false)),
        switch("podDisruptionBudget.maxUnavailable", json!("50%")),
        switch(
            "resources",
            json!({"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}}),
        ),
        switch("shutdownDelaySeconds", json!(5)),
        switch("terminationGracePeriodSeconds", json!(60)),
        switch("startupProbe", json!({"failureThreshold": 60})),
        switch("livenessProbe", json!({"initialDelaySeconds": 3})),
        switch("readinessProbe", json!({"periodSeconds": 1})),
        switch(
            "deploymentAnnotations",
            json!({"reloader.example/auto": "true"}),
        ),
        switch(
            "podAnnotations",
            json!({"config.linkerd.io/skip-inbound-ports": "8443,9000"}),
        ),
        switch("podLabels", json!({"istio.io/dataplane-mode": "none"})),
        switch(
            "podSecurityContext",
            json!({"runAsUser": null, "runAsGroup": null, "fsGroup": null}),
        ),
        switch("securityContext", json!({"runAsUser": 1234})),
        switch(
            "extraEnv",
            json!([{"name": "RUST_BACKTRACE", "value": "1"}]),
        ),
        switch("extraEnvFrom", json!([{"configMapRef": {"name": "more"}}])),
        switch("extraVolumes", json!([{"name": "scratch", "emptyDir": {}}])),
        given(
            switch(
                "extraVolumeMounts",
                json!([{"name": "scratch", "mountPath": "/scratch"}]),
            ),
            &json!({"extraVolumes": [{"name": "scratch", "emptyDir": {}}]}),
        ),
    ]
}

fn scheduling() -> Vec<Switch> {
    let terms = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]);
    let affinity =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let spread = json!([{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}]);
    vec![
        switch("priorityClassName", json!("system-cluster-critical")),
        switch("runtimeClassName", json!("gvisor")),
        switch("nodeSelector", json!({"disk": "ssd"})),
        switch(
            "tolerations",
            json!([{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]),
        ),
        switch("affinity", affinity),
        switch("topologySpreadConstraints", spread),
    ]
}

fn network() -> Vec<Switch> {
    let egress = json!([{"ports": [{"port": 6443, "protocol": "TCP"}]}, {"to": [{"namespaceSelector": {}}], "ports": [{"port": 53, "protocol": "UDP"}]}]);
    vec![
        switch("hostNetwork", json!(true)),
        switch("dnsPolicy", json!("Default")),
        switch(
            "dnsConfig",
            json!({"options": [{"name": "ndots", "value": "1"}]}),
        ),
        switch("listenAddress", json!("0.0.0.0")),
        switch("ports.webhook", json!(443)),
        switch("ports.metrics", json!(10250)),
        switch("service.port", json!(8443)),
        switch("service.metricsPort", json!(9090)),
        switch("service.ipFamilyPolicy", json!("PreferDualStack")),
        given(
            switch("service.ipFamilies", json!(["IPv6", "IPv4"])),
            &json!({"service": {"ipFamilyPolicy": "PreferDualStack"}}),
        ),
        switch(
            "service.annotations",
            json!({"prometheus.io/scrape": "true"}),
        ),
        switch("service.labels", json!({"tier": "admission"})),
        switch("serviceMesh.skipWebhookPort", json!(false)),
        switch("networkPolicy.enabled", json!(true)),
        switch("networkPolicy.egress", egress),
        switch(
            "networkPolicy.annotations",
            json!({"example.com/why": "ports"}),
        ),
    ]
}

fn permissions() -> Vec<Switch> {
    vec![
        given(
            switch("serviceAccount.create", json!(false)),
            &json!({"serviceAccount": {"name": "mine"}}),
        ),
        switch("serviceAccount.name", json!("mine")),
        switch(
            "serviceAccount.annotations",
            json!({"eks.amazonaws.com/role-arn": "none"}),
        ),
        switch("serviceAccount.labels", json!({"tier": "admission"})),
        switch("rbac.create", json!(false)),
    ]
}

fn monitoring() -> Vec<Switch> {
    let relabeling =
        json!([{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}]);
    vec![
        switch("serviceMonitor.enabled", json!(true)),
        switch("serviceMonitor.namespace", json!("monitoring")),
        switch("serviceMonitor.labels", json!({"release": "prometheus"})),
        switch("serviceMonitor.annotations", json!({"example.com/a": "b"})),
        switch("serviceMonitor.interval", json!("1m")),
        switch("serviceMonitor.scrapeTimeout", json!("5s")),
        switch("serviceMonitor.relabelings", relabeling.clone()),
        switch("serviceMonitor.metricRelabelings", relabeling),
        switch("prometheusRule.enabled", json!(true)),
        switch("prometheusRule.namespace", json!("monitoring")),
        switch("prometheusRule.labels", json!({"release": "prometheus"})),
        switch("prometheusRule.annotations", json!({"example.com/a": "b"})),
        switch("prometheusRule.selector", json!("job=~\"zonewise.*\"")),
        switch("prometheusRule.disabled", json!(["ZonewiseFrozen"])),
        switch("prometheusRule.alertLabels", json!({"team": "net"})),
        switch(
            "prometheusRule.runbookUrl",
            json!("https://github.com/zonewise/zonewise/wiki"),
        ),
        switch("prometheusRule.certificateExpiryHours", json!(24)),
        switch("grafanaDashboard.enabled", json!(true)),
        switch("grafanaDashboard.namespace", json!("monitoring")),
        switch("grafanaDashboard.labels", json!({"folder": "net"})),
        switch(
            "grafanaDashboard.annotations",
            json!({"grafana_folder": "Network"}),
        ),
        switch("helmTest.enabled", json!(false)),
        switch("helmTest.serviceAccountName", json!("checker")),
    ]
}
