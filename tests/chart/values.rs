//! Values, put together.

use serde_json::{Value, json};

use super::helm::Release;
use super::tools::text_of;

/// `{"a": {"b": value}}` of `a.b`.
pub fn at(path: &str, value: Value) -> Value {
    path.rsplit('.')
        .fold(value, |inner, key| json!({ key: inner }))
}

/// Maps merged; what stands in `over` wins.
pub fn merged(base: &Value, over: &Value) -> Value {
    let (Value::Object(base), Value::Object(over)) = (base, over) else {
        return over.clone();
    };
    let mut all = base.clone();
    for (key, value) in over {
        let merged = all
            .get(key)
            .map_or_else(|| value.clone(), |old| merged(old, value));
        all.insert(key.clone(), merged);
    }
    Value::Object(all)
}

/// `values.yaml`.
pub fn defaults() -> Value {
    serde_saphyr::from_str(&text_of("charts/zonewise/values.yaml")).expect("values.yaml is YAML")
}

/// Values that are maps and yet one thing.
const WHOLE: [&str; 9] = [
    "strategy",
    "resources",
    "startupProbe",
    "livenessProbe",
    "readinessProbe",
    "podSecurityContext",
    "securityContext",
    "nodeSelector",
    "grafanaDashboard.labels",
];

/// The paths of all values.
pub fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    collect("", &defaults(), &mut paths);
    paths.sort();
    paths
}

fn collect(path: &str, value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() && !WHOLE.contains(&path) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                collect(&path, value, paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}

/// Everything that is off unless asked for.
pub fn everything() -> Value {
    json!({
        "networkPolicy": {"enabled": true},
        "serviceMonitor": {"enabled": true},
        "prometheusRule": {"enabled": true},
        "grafanaDashboard": {"enabled": true},
    })
}

/// A certificate and where it comes from.
pub fn certificates(mode: &str) -> Value {
    match mode {
        "provided" => {
            json!({"certificates": {"mode": mode, "provided": {"secretName": "mine", "caBundle": CA}}})
        }
        _ => json!({"certificates": {"mode": mode}}),
    }
}

/// Stands for a CA: the API server looks no deeper than PEM.
pub const CA: &str = "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END CERTIFICATE-----\n";

/// Every way in which certificates, mode and controller go together, with everything else on. Who makes certificates of
/// its own leads.
pub fn ways() -> Vec<Value> {
    let mut ways = Vec::new();
    for certificate in ["self-managed", "cert-manager", "provided"] {
        for mode in ["Active", "Observe", "Off"] {
            for controller in [true, false] {
                if !controller && certificate == "self-managed" {
                    continue;
                }
                let way = json!({"mode": mode, "controller": {"enabled": controller}});
                ways.push(merged(
                    &merged(&everything(), &certificates(certificate)),
                    &way,
                ));
            }
        }
    }
    ways
}

/// As the API has bytes.
pub fn base64(text: &str) -> String {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.encode(text)
}

/// Releases and namespaces that Helm and Kubernetes allow, and values with names.
pub fn unusual_names() -> Vec<(Release, Value)> {
    let long = "r".repeat(53);
    let namespace = "n".repeat(63);
    let mut names: Vec<(Release, Value)> = [
        ("a", "b"),
        ("1st", "0"),
        // Numbers and a truth, if YAML is left to guess.
        ("123", "1e3"),
        ("true", "null"),
        ("my.release.v2", "my-namespace"),
        ("zonewise-prod", "zonewise-prod"),
        ("9-zonewise", "kube-system"),
        (long.as_str(), namespace.as_str()),
    ]
    .into_iter()
    .map(|(name, namespace)| (Release::new(name, namespace), json!({})))
    .collect();
    let release = || Release::new(&long, &namespace);
    names.push((release(), json!({"nameOverride": "o".repeat(63)})));
    names.push((
        release(),
        json!({"fullnameOverride": "f".repeat(63), "namespaceOverride": "0-0"}),
    ));
    names.push((
        release(),
        json!({"nameOverride": format!("{}-{}", "o".repeat(8), "p".repeat(54))}),
    ));
    names
}
