//! `zonewise explain`.

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};

use super::decisions::DecisionArgs;
use super::{Failure, connect, render};
use crate::cluster::files::{FileError, Objects};
use crate::report::{Filter, Report};

/// Explain what is decided for each Service, and why
///
/// Reads Nodes, Services and EndpointSlices from a cluster, or from files, decides as the webhook would at the next
/// write of each slice, and shows the decision, the numbers behind it, and what kube-proxy in each zone will do.
/// It changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zonewise explain -n shop web
  zonewise explain -A -o json | jq '.services[] | select(.decision == \"Strip\") | .message'
  kubectl get nodes,services,endpointslices -A -o yaml | zonewise explain -f -")]
pub struct Args {
    /// Only the Service of this name
    name: Option<String>,
    /// Only Services of this namespace; by default that of the kubeconfig's context, with files all
    #[arg(short, long, env = "ZONEWISE_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Services of all namespaces
    #[arg(short = 'A', long, env = "ZONEWISE_ALL_NAMESPACES")]
    all_namespaces: bool,
    /// Kubeconfig of the cluster
    #[arg(long, env = "ZONEWISE_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, env = "ZONEWISE_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Files or folders with Nodes, Services and EndpointSlices in place of a cluster; - is standard input
    #[arg(short, long = "file", env = "ZONEWISE_FILE", num_args = 1.., value_delimiter = ',', value_name = "FILE")]
    files: Vec<PathBuf>,
    /// table for people, json for programs, yaml for the slices as they would be stored
    #[arg(short, long, env = "ZONEWISE_OUTPUT", value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    decisions: DecisionArgs,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Output {
    #[default]
    Table,
    Json,
    Yaml,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let (objects, default_namespace) = if args.files.is_empty() {
        let runtime = tokio::runtime::Runtime::new().map_err(Failure::failed)?;
        runtime.block_on(list(args))?
    } else {
        (
            Objects::read(&args.files).map_err(|error| unreadable(&error))?,
            None,
        )
    };
    let namespace = args
        .namespace
        .clone()
        .or(default_namespace)
        .filter(|_| !args.all_namespaces);
    let filter = Filter {
        namespace,
        name: args.name.clone(),
    };
    let cluster = objects
        .load(args.decisions.store_rules(), Timestamp::now())
        .cluster();
    let report = Report::new(
        &cluster,
        &args.decisions.settings(),
        &objects.slices,
        &filter,
    );
    if let (Some(name), true) = (&args.name, report.services.is_empty()) {
        let place = filter
            .namespace
            .map_or_else(|| "any namespace".to_owned(), |n| format!("namespace {n}"));
        return Err(Failure::failed(format!(
            "there is no Service {name} in {place}"
        )));
    }
    print(args.output, &report).or_else(super::ignore_closed_pipe)
}

fn unreadable(error: &FileError) -> Failure {
    let missing =
        matches!(error, FileError::Read { source, .. } if source.kind() == ErrorKind::NotFound);
    let advice = if missing {
        "; a Service's name goes before -f"
    } else {
        ""
    };
    Failure::usage(format!("{error}{advice}"))
}

fn print(output: Output, report: &Report) -> std::io::Result<()> {
    match output {
        Output::Table => render::report(&mut anstream::stdout().lock(), report),
        Output::Json => {
            let mut out = std::io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)
        }
        Output::Yaml => {
            let mut out = std::io::stdout().lock();
            for slice in report.services.iter().flat_map(|service| &service.stored) {
                let text = serde_saphyr::to_string(slice).map_err(std::io::Error::other)?;
                writeln!(out, "---\n{}", text.trim_end())?;
            }
            Ok(())
        }
    }
}

async fn list(args: &Args) -> Result<(Objects, Option<String>), Failure> {
    let connected = connect::client(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let client = &connected.client;
    let objects = Objects {
        nodes: list_kind(client, "", "Node", "nodes").await?,
        services: list_kind(client, "", "Service", "services").await?,
        slices: list_kind(
            client,
            "discovery.k8s.io",
            "EndpointSlice",
            "endpointslices",
        )
        .await?,
    };
    Ok((objects, Some(connected.namespace)))
}

async fn list_kind(
    client: &Client,
    group: &str,
    kind: &str,
    plural: &str,
) -> Result<Vec<serde_json::Value>, Failure> {
    let resource = ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version: if group.is_empty() {
            "v1".into()
        } else {
            format!("{group}/v1")
        },
        kind: kind.into(),
        plural: plural.into(),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut objects = Vec::new();
    let mut page = ListParams::default().limit(500);
    loop {
        let list = tokio::time::timeout(Duration::from_mins(1), api.list(&page)).await;
        let list = list.map_err(|_| {
            Failure::failed(format!("can't list {plural}: no answer within a minute"))
        })?;
        let list =
            list.map_err(|error| Failure::failed(format!("can't list {plural}: {error}")))?;
        for mut object in list.items {
            // Items of a list do not say their kind, but a slice that is printed should.
            object.types = Some(kube::core::TypeMeta {
                api_version: resource.api_version.clone(),
                kind: kind.into(),
            });
            objects.push(serde_json::to_value(object).map_err(Failure::failed)?);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(objects),
        }
    }
}
