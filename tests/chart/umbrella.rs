//! The chart as a part of another.

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::helm::{Helm, Objects, Release};
use super::tools::{chart, copy};

const UMBRELLA: &str = "\
apiVersion: v2
name: platform
version: 1.0.0
dependencies:
  - name: zonewise
    version: '>=0.0.0-0'
    condition: zonewise.enabled
";

fn umbrella(folder: &Path) -> PathBuf {
    let parts = folder.join("charts");
    std::fs::create_dir_all(&parts).expect("a folder can be made");
    copy(&chart(), &parts.join("zonewise"));
    std::fs::write(folder.join("Chart.yaml"), UMBRELLA).expect("a file can be written");
    folder.to_owned()
}

each_helm!(
    any_alias_that_helm_accepts_gives_names_that_kubernetes_accepts,
    global_and_enabled_do_what_they_say,
);

fn any_alias_that_helm_accepts_gives_names_that_kubernetes_accepts(helm: &Helm) {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let chart = umbrella(folder.path());
    for (alias, name) in [
        ("zonewise_blue", "platform-zonewise-blue"),
        ("Zone_Wise", "platform-zone-wise"),
        ("_Edge_", "platform-edge"),
        ("___", "platform-zonewise"),
        ("9Lives", "platform-9lives"),
    ] {
        let text = format!("{UMBRELLA}    alias: {alias}\n").replace("zonewise.enabled", "");
        std::fs::write(chart.join("Chart.yaml"), text).expect("a file can be written");
        let release = Release {
            chart: chart.clone(),
            ..Release::new("platform", "platform")
        };
        let objects = helm.objects(&release, &json!({alias: {"mode": "Observe"}}));
        let webhook = objects.the("MutatingWebhookConfiguration");
        assert_eq!(webhook["metadata"]["name"], format!("platform.{name}"));
        for kind in ["Service", "Deployment", "ServiceAccount"] {
            assert_eq!(
                objects.the(kind)["metadata"]["name"],
                name,
                "{alias}: {kind}"
            );
        }
        for object in &objects.0 {
            for (key, value) in object["metadata"]["labels"].as_object().expect("labels") {
                let value = value.as_str().expect("a label is text");
                let is_odd = |c: char| !c.is_ascii_alphanumeric();
                assert!(
                    !value.starts_with(is_odd) && !value.ends_with(is_odd),
                    "{key}: {value}"
                );
            }
        }
    }
}

fn global_and_enabled_do_what_they_say(helm: &Helm) {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let release = Release {
        chart: umbrella(folder.path()),
        ..Release::new("platform", "platform")
    };
    let global = json!({"imageRegistry": "registry.example", "imagePullSecrets": ["pull"], "storageClass": "fast", "cattle": {"id": 1}});
    let on = json!({"global": global, "zonewise": {"enabled": true, "mode": "Observe"}});
    let objects = helm.objects(&release, &on);
    assert_eq!(objects.flag("--mode"), Some("Observe"));
    let pod = &objects.the("Deployment")["spec"]["template"]["spec"];
    assert!(
        pod["containers"][0]["image"]
            .as_str()
            .expect("an image")
            .starts_with("registry.example/zonewise/zonewise:")
    );
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    let off = helm.template(&release, &json!({"zonewise": {"enabled": false}}));
    assert_eq!(
        Objects::parse(&off.expect("it renders")).0,
        Vec::<serde_json::Value>::new()
    );
    let wrong = helm.template(
        &release,
        &json!({"zonewise": {"enabled": true, "mod": "Off"}}),
    );
    assert!(
        wrong
            .expect_err("it is refused")
            .contains("additional properties 'mod' not allowed")
    );
}
