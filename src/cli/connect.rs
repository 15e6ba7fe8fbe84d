//! The way to a cluster.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Failure;
use crate::cluster::watch;

/// A client, and the namespace that its configuration names.
pub struct Connected {
    pub client: Client,
    pub namespace: String,
}

/// Connects by a kubeconfig, or as a pod, or by the usual kubeconfig.
pub async fn client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Connected, Failure> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = match kubeconfig {
        Some(path) => {
            let named = |error: &dyn std::error::Error| Failure::usage(format!("{}: {error}", path.display()));
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| named(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| named(&error))?
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(Failure::usage)?,
        None => Config::infer().await.map_err(|error| {
            Failure::usage(format!("no cluster: {error}; give --kubeconfig, or files with explain -f or serve --from-files"))
        })?,
    };
    let config = watch::with_timeouts(config);
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(Failure::failed)?;
    Ok(Connected { client, namespace })
}
