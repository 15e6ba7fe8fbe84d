//! `zonewise explain`.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::api::{Api, SLICES, collection};
use super::connect::{ClusterArgs, Connected};
use super::decisions::DecisionArgs;
use super::{Failure, render};
use crate::cluster::files::{FileError, Objects};
use crate::cluster::store::Cluster;
use crate::cluster::wire::Namespace;
use crate::report::{Filter, Report};
use crate::words;

/// Explain what is decided for each Service, and why
///
/// Reads Nodes, Namespaces, Services and EndpointSlices from a cluster, or from files, decides as the webhook would at the next
/// write of each slice, and shows the decision, the numbers behind it, and what kube-proxy in each zone will do.
/// It changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zonewise explain -n shop web
  zonewise explain -A -o json | jq '.services[] | select(.decision == \"Strip\") | .message'
  kubectl get nodes,namespaces,services,endpointslices -A -o yaml | zonewise explain -f -

Exit status:
  0  whatever is decided
  2  the cluster or a file can't be read, there is no such Service, or the arguments are wrong")]
pub struct Args {
    /// Only the Service of this name; NAMESPACE/NAME takes the place of -n
    #[arg(value_name = "[NAMESPACE/]NAME")]
    name: Option<String>,
    /// Only Services of this namespace; by default that of the kubeconfig's context, with files all
    #[arg(short, long, env = "ZONEWISE_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Services of all namespaces
    #[arg(short = 'A', long, env = "ZONEWISE_ALL_NAMESPACES", value_parser = BoolishValueParser::new())]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Files or folders with Nodes, Namespaces, Services and EndpointSlices in place of a cluster; - is standard input.
    /// The variable counts for demo too
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
            Objects::read(&args.files).map_err(|error| unreadable(&error, args))?,
            None,
        )
    };
    let filter = filter(args, default_namespace)?;
    let cluster = objects
        .load(args.decisions.store_rules(), Timestamp::now())
        .cluster();
    let report = Report::new(&cluster, &args.decisions.settings(), &objects, &filter);
    if report.services.is_empty() {
        let nothing = nothing_matches(&cluster, &filter);
        if args.name.is_some() || (args.namespace.is_some() && !args.all_namespaces) {
            return Err(Failure::usage(nothing));
        }
        if matches!(args.output, Output::Table) {
            let wider = filter.namespace.map_or("", |_| "; -A takes all namespaces");
            anstream::eprintln!("{nothing}{wider}");
        }
    }
    print(args.output, &report).or_else(super::ignore_closed_pipe)
}

/// Which Services are asked for: `web`, `shop/web`, or as kubectl has it, `service/web`.
fn filter(args: &Args, default_namespace: Option<String>) -> Result<Filter, Failure> {
    const KINDS: [&str; 3] = ["svc", "service", "services"];
    let (before, name) = match args.name.as_deref().map(|name| name.rsplit_once('/')) {
        Some(Some((before, name))) => (Some(before), Some(name)),
        Some(None) => (None, args.name.as_deref()),
        None => (None, None),
    };
    let before = before.filter(|before| !KINDS.contains(before));
    if let (Some(before), Some(namespace)) = (before, &args.namespace)
        && before != namespace
    {
        return Err(Failure::usage(format!(
            "the Service is asked for in namespace {before}, and by -n in {namespace}: leave out one of both"
        )));
    }
    let asked = before.map(str::to_owned).or_else(|| args.namespace.clone());
    Ok(Filter {
        namespace: asked.or(default_namespace).filter(|_| !args.all_namespaces),
        name: name.map(str::to_owned),
    })
}

/// Says that no Service is what was asked for, and which there are.
fn nothing_matches(cluster: &Cluster, filter: &Filter) -> String {
    let (namespace, name) = (filter.namespace.as_deref(), filter.name.as_deref());
    let asked = name.map(|name| format!(" {name}")).unwrap_or_default();
    let place = namespace.map_or_else(|| "any namespace".to_owned(), |n| format!("namespace {n}"));
    let known = cluster.service_names();
    let known: Vec<(&str, &str)> = known.iter().filter_map(|s| s.split_once('/')).collect();
    if known.is_empty() {
        let any = if name.is_some() {
            asked
        } else {
            " at all".to_owned()
        };
        return format!("there is no Service{any} in what was read");
    }
    let namesakes = known.iter().filter(|(_, other)| name == Some(other));
    let namesakes: Vec<&str> = namesakes.map(|(namespace, _)| *namespace).collect();
    let neighbours = known
        .iter()
        .filter(|(other, _)| namespace.is_none_or(|n| n == *other));
    let neighbours: Vec<&str> = neighbours.map(|(_, name)| *name).collect();
    let there_are = if !namesakes.is_empty() {
        format!("one is in {}", words::first(&namesakes))
    } else if let Some(meant) =
        name.and_then(|name| words::nearest(name, neighbours.iter().copied()))
    {
        format!("did you mean {meant}?")
    } else if let [only] = neighbours[..] {
        format!("there is {only}")
    } else if !neighbours.is_empty() {
        format!("there are {}", words::first(&neighbours))
    } else {
        let mut namespaces: Vec<&str> = known.iter().map(|(namespace, _)| *namespace).collect();
        namespaces.dedup();
        format!("there are some in {}", words::first(&namespaces))
    };
    format!("there is no Service{asked} in {place}; {there_are}")
}

/// A file that is missing may be the name of a Service, all of which `-f` takes for files.
fn unreadable(error: &FileError, args: &Args) -> Failure {
    let may_be_name = |path: &Path| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-/".contains(c);
        path.to_str().is_some_and(|path| path.chars().all(is_name))
    };
    let advice = match error {
        FileError::Read { path, source }
            if source.kind() == ErrorKind::NotFound
                && args.name.is_none()
                && args.files.len() > 1
                && may_be_name(path) =>
        {
            "; a Service's name goes before -f"
        }
        _ => "",
    };
    Failure::usage(format!("{error}{advice}"))
}

fn print(output: Output, report: &Report) -> std::io::Result<()> {
    match output {
        Output::Table => render::report(&mut anstream::stdout().lock(), report),
        Output::Json => render::json(report),
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
    let connected = args.cluster.connect().await?;
    let objects = Objects {
        nodes: list_kind(&connected, "/api/v1", "Node", "nodes").await?,
        namespaces: list_kind(&connected, "/api/v1", "Namespace", "namespaces")
            .await?
            .iter()
            .filter_map(|namespace| Namespace::deserialize(namespace).ok())
            .collect(),
        services: list_kind(&connected, "/api/v1", "Service", "services").await?,
        slices: list_kind(&connected, SLICES, "EndpointSlice", "endpointslices").await?,
    };
    Ok((objects, Some(connected.namespace)))
}

async fn list_kind(
    connected: &Connected,
    group: &str,
    kind: &str,
    plural: &str,
) -> Result<Vec<Value>, Failure> {
    let api = Api::new(connected.client.clone());
    let version = group
        .trim_start_matches("/apis/")
        .trim_start_matches("/api/");
    let mut objects = Vec::new();
    let each = |mut object: Value| {
        // Items of a list do not say their kind, but a slice that is printed should.
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        objects.push(object);
    };
    let listed = api.list(&collection(group, None, plural), None, each).await;
    listed.map_err(|refusal| connected.refused(plural, &refusal))?;
    Ok(objects)
}
