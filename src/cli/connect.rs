//! The way to a cluster.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::Failure;
use super::api::Refusal;
use crate::cluster::watch;
use crate::words::with_causes;

/// Which cluster.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig of the cluster; without it, the pod's service account or the usual kubeconfig
    #[arg(long, env = "ZONEWISE_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, env = "ZONEWISE_CONTEXT", value_name = "NAME")]
    context: Option<String>,
}

impl ClusterArgs {
    /// Connects to it.
    pub async fn connect(&self) -> Result<Connected, Failure> {
        client(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

/// A client, where it asks, and the namespace that its configuration names.
pub struct Connected {
    pub client: Client,
    pub namespace: String,
    /// What further clients are made of.
    pub config: Config,
    server: String,
}

/// Connects by a kubeconfig, or as a pod, or by the usual kubeconfig.
pub async fn client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Connected, Failure> {
    let config = watch::with_timeouts(configuration(kubeconfig, context).await?);
    let (namespace, server) = (
        config.default_namespace.clone(),
        config.cluster_url.to_string(),
    );
    let client = Client::try_from(config.clone());
    Ok(Connected {
        client: client.map_err(|error| Failure::usage(with_causes(&error)))?,
        namespace,
        config,
        server,
    })
}

async fn configuration(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Config, Failure> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    if let Some(path) = kubeconfig {
        let unusable = |error| unusable(&format!("kubeconfig {}", path.display()), &error);
        let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
        return Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(unusable);
    }
    if context.is_some() {
        return Config::from_kubeconfig(&options)
            .await
            .map_err(|error| unusable("kubeconfig", &error));
    }
    Config::infer().await.map_err(|error| not_found(&error))
}

fn unusable(what: &str, error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::ReadConfig(cause, path) => {
            Failure::usage(format!("kubeconfig {}: {cause}", path.display()))
        }
        error => Failure::usage(format!("{what}: {}", first_line(error))),
    }
}

/// What is wrong with YAML comes with a drawing of the place.
fn first_line(error: &KubeconfigError) -> String {
    let text = with_causes(error);
    text.lines().next().unwrap_or_default().to_owned()
}

fn not_found(error: &InferConfigError) -> Failure {
    const ADVICE: &str =
        "give --kubeconfig FILE, or files in place of a cluster (explain -f, serve --from-files)";
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let kubeconfig = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<KubeconfigError>());
    let problem = match kubeconfig {
        Some(KubeconfigError::ReadConfig(cause, path))
            if cause.kind() == ErrorKind::NotFound && !in_pod =>
        {
            format!("there is no kubeconfig {}", path.display())
        }
        Some(error) if !in_pod => format!("the kubeconfig can't be used: {}", first_line(error)),
        _ => with_causes(error),
    };
    Failure::usage(format!("no cluster: {problem}; {ADVICE}"))
}

impl Connected {
    /// What is the matter when a kind can't be listed.
    pub fn refused(&self, plural: &str, refusal: &Refusal) -> Failure {
        let server = &self.server;
        Failure::usage(match refusal {
            Refusal::Unanswered(problem) => format!(
                "can't list {plural} from {server}: {problem}; see that the cluster is up and that --kubeconfig and \
                 --context name the right one, or give files with -f"
            ),
            Refusal::Forbidden(problem) => format!(
                "{server} refuses to list {plural}: {problem} (403); explain needs permission to list nodes, namespaces, services and \
                 endpointslices.discovery.k8s.io in the whole cluster"
            ),
            Refusal::NotFound(problem) => {
                format!("{server} refuses to list {plural}: {problem} (404)")
            }
            refusal @ Refusal::Status(..) => {
                format!("{server} refuses to list {plural}: {refusal}")
            }
        })
    }
}
