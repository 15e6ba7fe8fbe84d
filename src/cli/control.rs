//! The flags and the start of the controller, the part that writes to the cluster.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

use super::connect::Connected;
use super::{Failure, values};
use crate::cluster::store::Cluster;
use crate::controller;
use crate::controller::agenda::Waits;
use crate::controller::certificates::configuration::{ConfigurationName, Kind};
use crate::controller::drift::{Drift, DriftSettings};
use crate::controller::events::{Events, Pace};
use crate::controller::lease::{self, Candidate, LeaseSettings};
use crate::controller::metrics::ControllerMetrics;
use crate::controller::owner::Owner;
use crate::settings::Settings;

/// What the replica that leads does.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Controller")]
pub struct ControllerArgs {
    /// Whether the replica that holds the lease has slices mended that nobody writes, and posts events. Without it nobody
    /// looks either whether the webhook configuration trusts what is served: there is no zonewise_certificate_trusted
    #[arg(long, env = "ZONEWISE_CONTROLLER", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    controller: bool,
    /// Namespace of the lease; by default that of the service account or of the kubeconfig's context
    #[arg(long, env = "ZONEWISE_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// Name of the lease, the same for all replicas
    #[arg(
        long,
        env = "ZONEWISE_LEASE_NAME",
        default_value = "zonewise",
        value_name = "NAME"
    )]
    lease_name: String,
    /// Name of this replica in the lease, in events and in answers to `zonewise check`; by default the host name, which in a pod is the pod's
    #[arg(long, env = "ZONEWISE_REPLICA_NAME", value_name = "NAME")]
    replica_name: Option<String>,
    /// How long changes of nodes and Services are gathered before slices are mended
    #[arg(long, env = "ZONEWISE_DRIFT_GATHER", default_value = "1s", value_parser = values::waiting_time, value_name = "DURATION")]
    drift_gather: Duration,
    /// How long nobody else must have written a Service's slices before they are mended; after 30s they are mended anyway
    #[arg(long, env = "ZONEWISE_DRIFT_QUIET", default_value = "3s", value_parser = values::waiting_time, value_name = "DURATION")]
    drift_quiet: Duration,
    /// Slices mended a second; by default 10,000 divided by the number of nodes, but at least 1 and at most 50
    #[arg(long, env = "ZONEWISE_DRIFT_PACE", value_parser = values::pace, value_name = "NUMBER")]
    drift_pace: Option<f64>,
    /// How often all slices are looked at, whatever has changed
    #[arg(long, env = "ZONEWISE_FULL_LOOK_INTERVAL", default_value = "10m", value_parser = values::full_look, value_name = "DURATION")]
    full_look_interval: Duration,
    /// The MutatingWebhookConfiguration that calls zonewise: slices that its rules and selectors leave out are not mended,
    /// when it changes those that could not be are tried anew, and each replica looks whether its CA bundle trusts what is
    /// served; with --certificate-secret the leader puts that in
    #[arg(long, env = "ZONEWISE_WEBHOOK_CONFIGURATION", value_name = "NAME")]
    webhook_configuration: Option<String>,
    /// The ValidatingWebhookConfiguration that calls zonewise, for its CA bundle
    #[arg(
        long,
        env = "ZONEWISE_VALIDATING_WEBHOOK_CONFIGURATION",
        value_name = "NAME"
    )]
    validating_webhook_configuration: Option<String>,
    /// Deployment in the lease's namespace that owns what zonewise makes, so that both go together
    #[arg(long, env = "ZONEWISE_OWNER_DEPLOYMENT", value_name = "NAME")]
    owner_deployment: Option<String>,
}

/// The longest that a Service is left alone because its slices are being written.
const QUIET_AT_MOST: Duration = Duration::from_secs(30);

/// A controller that is ready to run.
pub struct Controller {
    drift: Drift,
    candidate: Candidate,
    owner: Option<Owner>,
}

impl ControllerArgs {
    /// Whether there is to be one.
    pub fn is_wanted(&self) -> bool {
        self.controller
    }

    /// The namespace of the lease.
    pub fn namespace<'a>(&'a self, connected: &'a Connected) -> &'a str {
        let namespace = self.lease_namespace.as_deref();
        namespace.unwrap_or_else(|| &connected.namespace)
    }

    /// The webhook configurations that call zonewise, as far as they are named.
    pub fn configurations(&self) -> Vec<ConfigurationName> {
        let named = [
            (Kind::Mutating, &self.webhook_configuration),
            (Kind::Validating, &self.validating_webhook_configuration),
        ];
        let named = named.into_iter().filter_map(|(kind, name)| {
            let name = name.clone()?;
            Some(ConfigurationName { kind, name })
        });
        named.collect()
    }

    /// The name of this replica.
    pub fn replica_name(&self) -> String {
        self.replica_name.clone().unwrap_or_else(host_name)
    }

    /// Prepares it.
    pub fn prepare(
        &self,
        connected: &Connected,
        cluster: Arc<Cluster>,
        decisions: Arc<Settings>,
        registry: &mut Registry,
    ) -> Result<Controller, Failure> {
        let replica = self.replica_name();
        let namespace = self.namespace(connected);
        let owner = self.owner_deployment.as_deref();
        let owner = owner.map(|name| Owner::new(namespace, name));
        let mut settings = LeaseSettings::new(namespace, &self.lease_name, &replica);
        if let Some(owner) = &owner {
            settings = settings.with_owner(owner.clone());
        }
        let lease_client = lease::client(connected.config.clone(), &settings);
        let candidate = Candidate::new(lease_client.map_err(Failure::failed)?, settings);
        let events = Events::new(connected.client.clone(), &replica, Pace::default());
        let events = Arc::new(events);
        Ok(Controller {
            drift: Drift {
                cluster,
                decisions,
                settings: DriftSettings {
                    waits: Waits {
                        gather: self.drift_gather,
                        quiet: self.drift_quiet,
                        quiet_at_most: QUIET_AT_MOST,
                    },
                    pace: self.drift_pace,
                    full_look: self.full_look_interval,
                    webhook_configuration: self.webhook_configuration.clone(),
                },
                client: connected.client.clone(),
                claim: candidate.claim(),
                metrics: ControllerMetrics::register(registry, events.clone()),
                events,
            },
            candidate,
            owner,
        })
    }
}

fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

impl Controller {
    /// Who campaigns for the lease.
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// What owns what it makes.
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Campaigns for the lease and works on drift until the process ends.
    pub async fn run(self) {
        let client = self.drift.client.clone();
        let owner = self.owner.map(|owner| owner.follow(client));
        tokio::select! {
            Some(()) = futures::future::OptionFuture::from(owner) => {}
            () = controller::run(self.drift, self.candidate) => {}
        }
    }
}
