//! `zonewise simulate`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anstyle::Style;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::decisions::DecisionArgs;
use super::{Failure, values};
use crate::decide::opt_in::Heuristic;
use crate::simulate::chart::{self, Line};
use crate::simulate::generate::{Shape, generate};
use crate::simulate::measures::Measures;
use crate::simulate::trace::{self, Trace};
use crate::simulate::{self, Rules};
use crate::words;

/// Play what happens to a cluster, and measure what hints do meanwhile
///
/// Plays a trace of pods, nodes and zones that come and go, made up from a seed or read from a file, through the same
/// decisions as the webhook, and shows how many hints of endpoints that stay change, how often hints go on and off, the
/// worst overload, violations of the threshold, and how much traffic stays in its zone. It needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zonewise simulate
  zonewise simulate --seed 7 --svg week.svg
  zonewise simulate --seeds 60 -o json | jq '.heuristics[].meanInZoneShare'
  zonewise simulate --seed 7 --write-trace seven.jsonl
  zonewise simulate --trace seven.jsonl --overload-threshold 0.3

Exit status:
  0  whatever is measured
  1  a file can't be written
  2  a trace can't be read, or the arguments are wrong")]
pub struct Args {
    /// The seed that the first trace is made from
    #[arg(
        long,
        env = "ZONEWISE_SEED",
        default_value_t = 1,
        value_name = "NUMBER"
    )]
    seed: u64,
    /// How many traces to make up and measure together, from as many seeds in a row
    #[arg(long, env = "ZONEWISE_SEEDS", default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// How many events a trace has
    #[arg(long, env = "ZONEWISE_EVENTS", default_value_t = 200, value_name = "NUMBER", value_parser = values::events)]
    events: usize,
    /// Files with traces to play in place of made-up ones; - is standard input
    #[arg(long, env = "ZONEWISE_TRACE", num_args = 1.., value_delimiter = ',', value_name = "FILE", conflicts_with_all = ["seed", "seeds", "events"])]
    trace: Vec<PathBuf>,
    /// Write the traces that are played to a file, which --trace reads
    #[arg(long, env = "ZONEWISE_WRITE_TRACE", value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// Heuristics to play the traces for, one after the other
    #[arg(long, env = "ZONEWISE_HEURISTIC", value_delimiter = ',', default_value = "Auto", value_parser = values::heuristic, value_name = "NAME")]
    heuristic: Vec<Heuristic>,
    /// How many endpoints the EndpointSlice controller puts into a slice at most
    #[arg(long, env = "ZONEWISE_SLICE_SIZE", default_value_t = 100, value_name = "NUMBER", value_parser = values::slice_size)]
    slice_size: usize,
    /// Draw a chart over time of one trace, as SVG
    #[arg(long, env = "ZONEWISE_SVG", value_name = "FILE")]
    svg: Option<PathBuf>,
    /// table for people, json for programs
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
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    traces: usize,
    heuristics: Vec<HeuristicOutcome>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeuristicOutcome {
    heuristic: &'static str,
    #[serde(flatten)]
    measures: Measures,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let traces = traces(args)?;
    if args.svg.is_some() && traces.len() > 1 {
        return Err(Failure::usage(format!(
            "--svg draws one trace, and these are {}; play one",
            traces.len()
        )));
    }
    if let Some(path) = &args.write_trace {
        write_file(path, |out| {
            traces.iter().try_for_each(|t| trace::write(out, t))
        })?;
    }
    let (outcome, lines) = play(args, &traces);
    if let Some(path) = &args.svg {
        let title = title(&traces[0]);
        write_file(path, |out| {
            out.write_all(chart::draw(&title, &lines).as_bytes())
        })?;
    }
    print(args.output, &outcome).or_else(super::ignore_closed_pipe)
}

fn traces(args: &Args) -> Result<Vec<Trace>, Failure> {
    if args.trace.is_empty() {
        let shape = Shape {
            events: args.events,
            ..Shape::default()
        };
        let seeds = (0..args.seeds).map(|number| args.seed.wrapping_add(number));
        return Ok(seeds.map(|seed| generate(seed, shape)).collect());
    }
    let mut traces = Vec::new();
    for path in &args.trace {
        traces.extend(read(path)?);
    }
    Ok(traces)
}

fn read(path: &Path) -> Result<Vec<Trace>, Failure> {
    if path.as_os_str() == "-" {
        return trace::read("standard input", io::stdin().lock()).map_err(Failure::usage);
    }
    let name = path.display().to_string();
    let file =
        File::open(path).map_err(|error| Failure::usage(format!("can't read {name}: {error}")))?;
    trace::read(&name, BufReader::new(file)).map_err(Failure::usage)
}

fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let file = File::create(path).map(BufWriter::new);
    let written = file.and_then(|mut file| {
        write(&mut file)?;
        file.flush()
    });
    written.map_err(|error| Failure::failed(format!("can't write {}: {error}", path.display())))
}

fn play(args: &Args, traces: &[Trace]) -> (Outcome, Vec<Line>) {
    let rules = Rules {
        slice_size: args.slice_size,
        settings: args.decisions.settings(),
        store: args.decisions.store_rules(),
    };
    let progress = progress(args.heuristic.len() * traces.iter().map(steps).sum::<usize>());
    let mut lines = Vec::new();
    let mut outcome = Outcome {
        traces: traces.len(),
        heuristics: Vec::new(),
    };
    for &heuristic in &args.heuristic {
        let mut measures = Measures::default();
        let mut points = Vec::new();
        for trace in traces {
            simulate::play(trace, heuristic, &rules, &mut measures, |point| {
                progress.inc(1);
                points.push(point);
            });
        }
        let heuristic = heuristic.word();
        lines.push(Line {
            name: heuristic.to_owned(),
            points,
        });
        outcome.heuristics.push(HeuristicOutcome {
            heuristic,
            measures,
        });
    }
    progress.finish_and_clear();
    (outcome, lines)
}

fn steps(trace: &Trace) -> usize {
    trace.events.len().saturating_sub(1)
}

/// On standard error, and only where that is a terminal.
fn progress(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} events, {eta} left")
        .expect("the template is sound");
    ProgressBar::new(steps as u64).with_style(style)
}

fn title(trace: &Trace) -> String {
    let events = words::count(steps(trace), "event");
    match trace.header.seed {
        Some(seed) => format!("{events} of seed {seed}"),
        None => format!("{events} of a trace"),
    }
}

fn print(output: Output, outcome: &Outcome) -> io::Result<()> {
    match output {
        Output::Table => table(&mut anstream::stdout().lock(), outcome),
        Output::Json => {
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, outcome)?;
            writeln!(out)
        }
    }
}

const BOLD: Style = Style::new().bold();

fn table(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let traces = words::count(outcome.traces, "trace");
    let events = outcome.heuristics.first().map_or(0, |h| h.measures.events);
    let events = words::count(usize::try_from(events).unwrap_or(usize::MAX), "event");
    writeln!(out, "{traces}, {events}")?;
    writeln!(out)?;
    row(out, BOLD, "", outcome, |h| h.heuristic.to_owned())?;
    for (name, value) in ROWS {
        row(out, Style::new(), name, outcome, |h| value(&h.measures))?;
    }
    writeln!(out)?;
    writeln!(out, "{BOLD}changed hints by event{BOLD:#}")?;
    let kinds = outcome
        .heuristics
        .iter()
        .flat_map(|h| h.measures.by_event.keys());
    let kinds: std::collections::BTreeSet<_> = kinds.collect();
    for kind in kinds {
        let name = format!("  {kind}");
        row(out, Style::new(), &name, outcome, |h| {
            let of_kind = h.measures.by_event.get(kind).copied().unwrap_or_default();
            format!("{} in {}", of_kind.hint_changes, of_kind.events)
        })?;
    }
    Ok(())
}

type Row = (&'static str, fn(&Measures) -> String);

const ROWS: [Row; 11] = [
    ("changed hints of endpoints that stay", |m| {
        m.hint_changes.to_string()
    }),
    ("  from one zone to another", |m| m.moved_hints.to_string()),
    ("  came or went", |m| {
        (m.hint_changes - m.moved_hints).to_string()
    }),
    ("hints turned on or off", |m| m.flips.to_string()),
    ("events with hints", |m| m.hinted_states.to_string()),
    ("violations of a zone's minimum", |m| {
        m.violations.to_string()
    }),
    ("worst overload", |m| {
        format!("{:.1} %", 100.0 * m.worst_overload)
    }),
    ("overload, mean", |m| {
        format!("{:.1} %", 100.0 * m.mean_overload)
    }),
    ("traffic in its zone, mean", |m| {
        format!("{:.2} %", 100.0 * m.mean_in_zone_share)
    }),
    ("slices written by the controller", |m| {
        m.controller_writes.to_string()
    }),
    ("slices written by drift", |m| m.drift_writes.to_string()),
];

fn row(
    out: &mut impl Write,
    style: Style,
    name: &str,
    outcome: &Outcome,
    value: impl Fn(&HeuristicOutcome) -> String,
) -> io::Result<()> {
    write!(out, "{style}{name:38}")?;
    for heuristic in &outcome.heuristics {
        write!(out, "{:>14}", value(heuristic))?;
    }
    writeln!(out, "{style:#}")
}
