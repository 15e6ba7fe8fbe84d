//! `zonewise check`.

mod cluster;
mod configuration;
mod data_plane;
mod lease;
mod line;
mod probe;
mod served;
mod target;
mod trust;
mod versions;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::version::Info;
use serde::Deserialize;
use time::OffsetDateTime;

use self::cluster::Seen;
use self::configuration::{Found, Webhook};
use self::line::{Line, Report, Status, Thing};
use self::probe::{Clues, Outcome};
use self::served::{Looks, Served};
use self::target::Target;
use self::versions::Version;
use super::Failure;
use super::api::{Api, Refusal};
use super::connect::{ClusterArgs, Connected};
use super::decisions::DecisionArgs;
use super::render::{self, Output};

/// Tell whether an installation works, and what is wrong
///
/// Looks at the API server, the webhook configuration and its CA, sends a write that stores nothing to see whether it
/// reaches zonewise, and looks at nodes, Services, other webhooks, versions, the data plane and the Lease. Each line is
/// ok, a warning or a failure, with what to do and where the documentation says more.
///
/// It stores nothing. What it may not look at it says in a warning, and goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zonewise check --namespace zonewise
  zonewise check --namespace zonewise -o json | jq '.checks[] | select(.status != \"ok\")'
  zonewise check --context staging --webhook-configuration zonewise-edge

Exit status:
  0  no failure; there may be warnings
  1  at least one failure
  2  the arguments are wrong, or there is no cluster to ask

docs/check.md has each line, the JSON and the permissions.")]
pub struct Args {
    /// Namespace of zonewise: of the dry run and of the Lease; by default that of the service account or of the
    /// kubeconfig's context
    #[arg(short, long, env = "ZONEWISE_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The MutatingWebhookConfiguration; by default the one with a webhook called ….zonewise.dev
    #[arg(long, env = "ZONEWISE_WEBHOOK_CONFIGURATION", value_name = "NAME")]
    webhook_configuration: Option<String>,
    /// Name of the Lease
    #[arg(
        long,
        env = "ZONEWISE_LEASE_NAME",
        default_value = "zonewise",
        value_name = "NAME"
    )]
    lease_name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// table for people, json for programs
    #[arg(short, long, env = "ZONEWISE_OUTPUT", value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    decisions: DecisionArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::failed)?;
    let lines = runtime.block_on(look(args))?;
    let report = Report::new(lines);
    print(args.output, &report).or_else(super::ignore_closed_pipe)?;
    match report.count(Status::Failure) {
        0 => Ok(()),
        1 => Err(Failure::failed("1 check failed")),
        failures => Err(Failure::failed(format!("{failures} checks failed"))),
    }
}

fn print(output: Output, report: &Report) -> std::io::Result<()> {
    match output {
        Output::Table => report.table(&mut anstream::stdout().lock()),
        Output::Json => render::json(report),
    }
}

async fn look(args: &Args) -> Result<Vec<Line>, Failure> {
    let connected = args.cluster.connect().await?;
    let namespace = args.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| connected.namespace.clone());
    let api = Api::new(connected.client.clone());
    let info = match api.get_path::<Info>("/version").await {
        Ok(info) => info,
        Err(refusal) => return Ok(vec![unreachable(&connected, &refusal)]),
    };
    let mut lines = vec![versions::api_server(
        &info.git_version,
        &connected.config.cluster_url.to_string(),
    )];
    let found = configuration::find(&api, args.webhook_configuration.as_deref()).await;
    let scope = found
        .ours
        .as_ref()
        .map(|ours| ours.0.webhooks[ours.1].scope.clone());
    lines.extend(webhook_lines(&api, &namespace, found).await);
    let seen = Seen::read(&api, &args.decisions).await;
    lines.push(seen.nodes());
    lines.extend(seen.services_and_drift(scope.as_ref()));
    lines.push(versions::skew(
        Version::read(&info.git_version),
        &seen.kubelets,
        seen.without_annotation,
    ));
    let ignored = args.decisions.settings().ignored_slice_managers;
    lines.push(data_plane::check(&api, &ignored).await);
    lines.push(lease::check(&api, &namespace, &args.lease_name).await);
    Ok(lines)
}

fn unreachable(connected: &Connected, refusal: &Refusal) -> Line {
    let server = &connected.config.cluster_url;
    Line::failure(
        Thing::ApiServer,
        format!("{server} can't be asked: {refusal}"),
        "see that the cluster is up and that --kubeconfig and --context name the right one; nothing else was looked at",
    )
}

/// What is to be told of the webhook configuration and the way from there to zonewise.
async fn webhook_lines(api: &Api, namespace: &str, found: Found) -> Vec<Line> {
    let mut lines = vec![found.line];
    if let Some(ours) = &found.ours {
        let webhook = &ours.0.webhooks[ours.1];
        lines.extend([
            webhook.rules(),
            webhook.failure_policy(Thing::FailurePolicy),
            webhook.scope(),
        ]);
        let (mut looks, now) = (Looks::default(), OffsetDateTime::now_utc());
        lines.extend(way_lines(api, namespace, webhook, &mut looks, now).await);
        let validating = configuration::list(api, "validatingwebhookconfigurations").await;
        lines.push(configuration::validating(&validating, &mut looks, now).await);
        lines.push(match &found.all {
            Ok(all) => configuration::others(all, ours),
            Err(refusal) => Line::not_looked_at(
                Thing::OtherWebhooks,
                refusal,
                "list mutatingwebhookconfigurations",
            ),
        });
    }
    lines
}

/// What is to be told of the way from the API server to zonewise.
async fn way_lines(
    api: &Api,
    namespace: &str,
    webhook: &Webhook,
    looks: &mut Looks,
    now: OffsetDateTime,
) -> Vec<Line> {
    let target = Target::of(&webhook.client_config);
    let (service_line, has_endpoints) = target.look(api).await;
    let bundle = webhook.ca_bundle(now);
    let outcome = probe::send(api, namespace, webhook).await;
    let address = target.address();
    let served = Served::look(looks, &bundle, address.as_ref(), now).await;
    let at = address.map_or_else(String::new, served::host_and_port);
    let served_line = served.line(&at, outcome.was_answered(), now);
    let clues = Clues {
        webhook,
        namespace_labels: labels_of(api, namespace).await,
        has_endpoints,
        trusts_nothing: bundle.is_broken(),
        served: &served,
        readyz: match &outcome {
            Outcome::Unanswered => target.readyz(api).await,
            _ => None,
        },
    };
    let probe_line = outcome.line(namespace, &clues);
    vec![service_line, bundle.line, served_line, probe_line]
}

#[derive(Deserialize)]
struct Labelled {
    metadata: Labels,
}

#[derive(Deserialize)]
struct Labels {
    labels: Option<BTreeMap<String, String>>,
}

async fn labels_of(api: &Api, namespace: &str) -> Option<BTreeMap<String, String>> {
    let object: Labelled = api.get("/api/v1/namespaces", namespace).await.ok()?;
    object.metadata.labels
}
