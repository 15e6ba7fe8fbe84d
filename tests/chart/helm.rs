//! The real helm.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use serde_json::Value;
use tempfile::TempDir;

use super::tools::{chart, tool};

/// A helm with nobody's settings.
pub struct Helm {
    program: PathBuf,
    home: TempDir,
}

/// What is installed, and where.
#[derive(Debug, Clone)]
pub struct Release {
    /// The chart's folder.
    pub chart: PathBuf,
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
}

impl Release {
    /// The chart under a name in a namespace.
    pub fn new(name: &str, namespace: &str) -> Self {
        Self {
            chart: chart(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// As the documents install it.
    pub fn usual() -> Self {
        Self::new("zonewise", "zonewise")
    }
}

impl Helm {
    /// Of major version 4.
    pub fn four() -> Self {
        Self::at(tool("ZONEWISE_HELM", "helm", "v4.", "helm"))
    }

    /// Of major version 3.
    pub fn three() -> Self {
        Self::at(tool("ZONEWISE_HELM_3", "helm", "v3.", "helm"))
    }

    fn at(program: PathBuf) -> Self {
        let home = TempDir::new().expect("a temporary folder can be made");
        Self { program, home }
    }

    /// A command of helm.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // Helm runs too briefly to need its garbage collector, which takes a quarter of its CPU.
        command.env("GOGC", "off");
        command.args(arguments).env_remove("KUBECONFIG");
        for variable in [
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "HOME",
        ] {
            command.env(variable, self.home.path());
        }
        command
    }

    /// Its output, or its complaint.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        said(&self.command(arguments).output().expect("helm runs"))
    }

    /// `helm lint --strict`.
    pub fn lint(&self, values: &Value) -> Result<String, String> {
        let file = self.values_file(values);
        let chart = chart();
        self.run(&["lint", "--strict", &text(&chart), "--values", &text(&file)])
    }

    /// The output of `helm template`, or its error. Tests that render the chart with the same values share one run.
    pub fn template(&self, release: &Release, values: &Value) -> Result<String, String> {
        let run = || self.template_file(release, &self.values_file(values));
        // A test changes its copy of the chart between two runs.
        if release.chart != chart() {
            return run();
        }
        let rendering = Rendering {
            program: self.program.clone(),
            release: [release.name.clone(), release.namespace.clone()],
            values: values.to_string(),
        };
        let mut renderings = RENDERINGS.lock().expect("no holder of the lock panics");
        let shared = Arc::clone(renderings.entry(rendering).or_default());
        drop(renderings);
        shared.get_or_init(run).clone()
    }

    /// The same with a file of values, in a run of its own.
    pub fn template_file(&self, release: &Release, values: &Path) -> Result<String, String> {
        self.run(&[
            "template",
            &release.name,
            &text(&release.chart),
            "--namespace",
            &release.namespace,
            // Built from its module helm 3 takes the cluster to be of 1.20.
            "--kube-version",
            "1.30.0",
            "--values",
            &text(values),
        ])
    }

    /// The objects of `helm template`.
    pub fn objects(&self, release: &Release, values: &Value) -> Objects {
        let text = self.template(release, values);
        let text = text.unwrap_or_else(|error| panic!("{} with {values}: {error}", release.name));
        Objects::parse(&text)
    }

    /// A file with these values; the same values give the same file.
    pub fn values_file(&self, values: &Value) -> PathBuf {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let text = values.to_string();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let path = self.home.path().join(format!("{:x}.json", hasher.finish()));
        std::fs::write(&path, text).expect("values can be written");
        path
    }
}

/// What decides the output of `helm template` of the chart.
#[derive(PartialEq, Eq, Hash)]
struct Rendering {
    program: PathBuf,
    release: [String; 2],
    values: String,
}

static RENDERINGS: LazyLock<Mutex<HashMap<Rendering, Shared>>> = LazyLock::new(Mutex::default);

type Shared = Arc<OnceLock<Result<String, String>>>;

/// What a command said: on standard output where it succeeded, or else all of it.
pub fn said(output: &Output) -> Result<String, String> {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.status.success() {
        Ok(out)
    } else {
        Err(out + &err)
    }
}

/// A path as an argument.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Kubernetes objects, in order of kind and name.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects(pub Vec<Value>);

impl Objects {
    /// From YAML documents.
    pub fn parse(text: &str) -> Self {
        let all: Vec<Value> =
            serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        let mut all: Vec<Value> = all.into_iter().filter(|object| !object.is_null()).collect();
        all.sort_by_key(|object| {
            (
                object["kind"].to_string(),
                object["metadata"]["name"].to_string(),
            )
        });
        Self(all)
    }

    /// Those of a kind that are no hooks.
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        let own = self.0.iter().filter(|object| !is_hook(object));
        own.filter(|object| object["kind"] == kind).collect()
    }

    /// The hooks.
    pub fn hooks(&self) -> Vec<&Value> {
        self.0.iter().filter(|object| is_hook(object)).collect()
    }

    /// The only one of a kind that is no hook.
    pub fn the(&self, kind: &str) -> &Value {
        let all = self.all(kind);
        assert_eq!(all.len(), 1, "objects of kind {kind}");
        all[0]
    }

    /// The arguments of the container.
    pub fn arguments(&self) -> Vec<&str> {
        let container = &self.the("Deployment")["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"]
            .as_array()
            .expect("the container has arguments");
        arguments.iter().filter_map(Value::as_str).collect()
    }

    /// The value of a flag.
    pub fn flag(&self, name: &str) -> Option<&str> {
        let arguments = self.arguments();
        let value = |argument: &&'_ str| {
            argument
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('='))
        };
        let found = arguments.into_iter().find(value)?;
        Some(&found[name.len() + 1..])
    }
}

fn is_hook(object: &Value) -> bool {
    object["metadata"]["annotations"]["helm.sh/hook"].is_string()
}
