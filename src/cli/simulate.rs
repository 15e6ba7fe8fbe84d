//! `zonewise simulate`.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anstyle::Style;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::decisions::PlanArgs;
use super::render::{self, Output};
use super::{Failure, values};
use crate::planner::heuristic::Heuristic;
use crate::simulate::chart::{self, Line};
use crate::simulate::generate::{NodeChanges, Shape, generate};
use crate::simulate::measures::Measures;
use crate::simulate::trace::{self, Trace};
use crate::simulate::{self, Point, Rules};
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
        value_parser = values::seed,
        allow_negative_numbers = true,
        value_name = "NUMBER"
    )]
    seed: u64,
    /// How many traces to make up and measure together, from as many seeds in a row
    #[arg(long, env = "ZONEWISE_SEEDS", default_value_t = 1, value_name = "NUMBER", value_parser = values::seeds, allow_negative_numbers = true)]
    seeds: u64,
    /// How many events a trace has
    #[arg(long, env = "ZONEWISE_EVENTS", default_value_t = 200, value_name = "NUMBER", value_parser = values::events, allow_negative_numbers = true)]
    events: usize,
    /// How much of what happens in a made-up trace happens to nodes and zones
    #[arg(
        long,
        env = "ZONEWISE_NODE_CHANGES",
        value_enum,
        default_value_t,
        value_name = "HOW_MANY"
    )]
    node_changes: NodeChanges,
    /// The fewest and the most pods of a made-up trace, as in 2-14
    #[arg(long, env = "ZONEWISE_PODS", default_value = "6-90", value_parser = values::pods, value_name = "LEAST-MOST")]
    pods: values::Range,
    /// Files with traces to play in place of made-up ones; - is standard input
    #[arg(long, env = "ZONEWISE_TRACE", num_args = 1.., value_delimiter = ',', value_name = "FILE", conflicts_with_all = ["seed", "seeds", "events", "node_changes", "pods"])]
    trace: Vec<PathBuf>,
    /// Write the traces that are played to a file, which --trace reads
    #[arg(long, env = "ZONEWISE_WRITE_TRACE", value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// Heuristics to play the traces for, of Auto, Overlap and PreferZone, separated by commas
    #[arg(long, env = "ZONEWISE_HEURISTIC", value_delimiter = ',', default_value = "Auto", value_parser = values::heuristic, value_name = "NAME")]
    heuristic: Vec<Heuristic>,
    /// How many endpoints the EndpointSlice controller puts into a slice at most
    #[arg(long, env = "ZONEWISE_SLICE_SIZE", default_value_t = 100, value_name = "NUMBER", value_parser = values::slice_size, allow_negative_numbers = true)]
    slice_size: usize,
    /// Draw a chart over time of one trace, as SVG
    #[arg(long, env = "ZONEWISE_SVG", value_name = "FILE")]
    svg: Option<PathBuf>,
    /// table for people, json for programs
    #[arg(short, long, env = "ZONEWISE_OUTPUT", value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    plans: PlanArgs,
}

/// Of the JSON: keys may be added to it, none renamed.
const SCHEMA_VERSION: u32 = 1;

/// What is printed as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    schema_version: u32,
    traces: usize,
    /// The seed of the first, where they have one.
    first_seed: Option<u64>,
    slice_size: usize,
    overload_threshold: f64,
    keep_overload: f64,
    keep_in_zone: f64,
    heuristics: Vec<HeuristicOutcome>,
}

/// Where traces come from.
enum Source<'a> {
    /// Each is made when its turn has come.
    Seeds(&'a Args),
    Files(Vec<Trace>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeuristicOutcome {
    heuristic: &'static str,
    #[serde(flatten)]
    measures: Measures,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    check_files(args)?;
    let source = Source::of(args)?;
    if args.svg.is_some() && source.traces() > 1 {
        return Err(Failure::usage(format!(
            "--svg draws one trace, and these are {}; play one",
            source.traces()
        )));
    }
    let (outcome, lines) = play(args, &source)?;
    if let (Some(path), Some(trace)) = (&args.svg, source.trace(0)) {
        let chart = chart::draw(&title(&trace), &lines);
        let mut file = OutFile::create(path)?;
        file.write(|out| out.write_all(chart.as_bytes()))?;
        file.finish()?;
    }
    print(args.output, &outcome).or_else(super::ignore_closed_pipe)
}

/// Standard output is taken by the measures.
fn check_files(args: &Args) -> Result<(), Failure> {
    let files = [("--svg", &args.svg), ("--write-trace", &args.write_trace)];
    for (flag, path) in files {
        if path.as_ref().is_some_and(|path| path.as_os_str() == "-") {
            return Err(Failure::usage(format!(
                "{flag} needs the name of a file: the measures go to standard output"
            )));
        }
    }
    if args.svg.is_some() && args.svg == args.write_trace {
        return Err(Failure::usage(
            "--svg and --write-trace name the same file: one would overwrite the other",
        ));
    }
    Ok(())
}

impl<'a> Source<'a> {
    fn of(args: &'a Args) -> Result<Self, Failure> {
        if args.trace.is_empty() {
            return Ok(Self::Seeds(args));
        }
        let mut traces = Vec::new();
        for path in &args.trace {
            traces.extend(read(path)?);
        }
        Ok(Self::Files(traces))
    }

    fn traces(&self) -> usize {
        match self {
            Self::Seeds(args) => usize::try_from(args.seeds).unwrap_or(usize::MAX),
            Self::Files(traces) => traces.len(),
        }
    }

    fn trace(&self, number: usize) -> Option<Cow<'_, Trace>> {
        match self {
            Self::Seeds(args) => {
                let shape = Shape {
                    events: args.events,
                    node_changes: args.node_changes,
                    pods: (args.pods.least, args.pods.most),
                    ..Shape::default()
                };
                let seed = args.seed.wrapping_add(number as u64);
                (number < self.traces()).then(|| Cow::Owned(generate(seed, shape)))
            }
            Self::Files(traces) => traces.get(number).map(Cow::Borrowed),
        }
    }

    /// Events of all traces behind their starts.
    fn steps(&self) -> u64 {
        match self {
            Self::Seeds(args) => args.seeds.saturating_mul(args.events as u64),
            Self::Files(traces) => traces.iter().map(|trace| steps(trace) as u64).sum(),
        }
    }

    fn first_seed(&self) -> Option<u64> {
        match self {
            Self::Seeds(args) => Some(args.seed),
            Self::Files(traces) => traces.first()?.header.seed,
        }
    }
}

fn read(path: &Path) -> Result<Vec<Trace>, Failure> {
    if path.as_os_str() == "-" {
        return trace::read("standard input", io::stdin().lock()).map_err(Failure::usage);
    }
    let name = path.display().to_string();
    if path.is_dir() {
        return Err(Failure::usage(format!("{name} is a folder; name a file")));
    }
    let file =
        File::open(path).map_err(|error| Failure::usage(format!("can't read {name}: {error}")))?;
    trace::read(&name, BufReader::new(file)).map_err(Failure::usage)
}

/// A file that is being written.
struct OutFile<'a> {
    path: &'a Path,
    file: BufWriter<File>,
}

impl<'a> OutFile<'a> {
    fn create(path: &'a Path) -> Result<Self, Failure> {
        match File::create(path) {
            Ok(file) => Ok(Self {
                path,
                file: BufWriter::new(file),
            }),
            Err(error) => Err(not_written(path, &error)),
        }
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        write(&mut self.file).map_err(|error| not_written(self.path, &error))
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.write(BufWriter::flush)
    }
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("can't write {}: {error}", path.display()))
}

/// Plays one trace after the other: what comes of all, and the lines of a chart if one is to be drawn.
fn play(args: &Args, source: &Source<'_>) -> Result<(Outcome, Vec<Line>), Failure> {
    let rules = Rules {
        slice_size: args.slice_size,
        settings: args.plans.settings(),
        store: args.plans.store_rules(),
    };
    let mut written = args
        .write_trace
        .as_deref()
        .map(OutFile::create)
        .transpose()?;
    let mut columns: Vec<Column> = args.heuristic.iter().copied().map(Column::of).collect();
    let progress = progress(source.steps().saturating_mul(columns.len() as u64));
    for trace in (0..source.traces()).filter_map(|number| source.trace(number)) {
        if let Some(written) = &mut written {
            written.write(|out| trace::write(out, &trace))?;
        }
        for column in &mut columns {
            let (measures, points) = (&mut column.measures, &mut column.points);
            simulate::play(&trace, column.heuristic, &rules, measures, |point| {
                progress.inc(1);
                if args.svg.is_some() {
                    points.push(point);
                }
            });
        }
    }
    progress.finish_and_clear();
    written.map_or(Ok(()), OutFile::finish)?;
    Ok(outcome(source, &rules, columns))
}

/// What a heuristic did.
struct Column {
    heuristic: Heuristic,
    measures: Measures,
    points: Vec<Point>,
}

impl Column {
    fn of(heuristic: Heuristic) -> Self {
        Self {
            heuristic,
            measures: Measures::default(),
            points: Vec::new(),
        }
    }
}

fn outcome(source: &Source<'_>, rules: &Rules, columns: Vec<Column>) -> (Outcome, Vec<Line>) {
    let of_column = |column: Column| {
        let heuristic = column.heuristic.word();
        let outcome = HeuristicOutcome {
            heuristic,
            measures: column.measures,
        };
        let line = Line {
            name: heuristic.to_owned(),
            points: column.points,
        };
        (outcome, line)
    };
    let (heuristics, lines) = columns.into_iter().map(of_column).unzip();
    let outcome = Outcome {
        schema_version: SCHEMA_VERSION,
        traces: source.traces(),
        first_seed: source.first_seed(),
        slice_size: rules.slice_size,
        overload_threshold: rules.settings.threshold.as_fraction(),
        keep_overload: rules.settings.keep.overload,
        keep_in_zone: rules.settings.keep.in_zone,
        heuristics,
    };
    (outcome, lines)
}

fn steps(trace: &Trace) -> usize {
    trace.events.len().saturating_sub(1)
}

/// On standard error, and only where that is a terminal.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} events, {eta} left")
        .expect("the template is sound");
    ProgressBar::new(steps).with_style(style)
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
        Output::Json => render::json(outcome),
    }
}

const BOLD: Style = Style::new().bold();

fn table(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let traces = words::count(outcome.traces, "trace");
    let events = outcome.heuristics.first().map_or(0, |h| h.measures.events);
    let counted = words::count(usize::try_from(events).unwrap_or(usize::MAX), "event");
    match outcome.first_seed {
        Some(seed) if outcome.traces == 1 => writeln!(out, "{traces} of seed {seed}, {counted}")?,
        Some(seed) => writeln!(out, "{traces} from seed {seed} on, {counted}")?,
        None => writeln!(out, "{traces}, {counted}")?,
    }
    if events == 0 {
        return writeln!(
            out,
            "Nothing happens in it, so there is nothing to measure."
        );
    }
    writeln!(out)?;
    row(out, BOLD, "", outcome, |h| h.heuristic.to_owned())?;
    for (name, value) in ROWS {
        row(out, Style::new(), name, outcome, |h| value(&h.measures))?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "{BOLD}changed hints of endpoints that stay, by event{BOLD:#}"
    )?;
    let kinds = outcome
        .heuristics
        .iter()
        .flat_map(|h| h.measures.by_event.keys());
    let kinds: std::collections::BTreeSet<_> = kinds.collect();
    for kind in kinds {
        let name = format!("  {kind}");
        row(out, Style::new(), &name, outcome, |h| {
            let of_kind = h.measures.by_event.get(kind).copied().unwrap_or_default();
            let events = usize::try_from(of_kind.events).unwrap_or(usize::MAX);
            format!(
                "{} in {}",
                of_kind.hint_changes,
                words::count(events, "event")
            )
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
    ("violations of the guarantee", |m| m.violations.to_string()),
    ("worst overload", |m| {
        format!("{:.1}%", 100.0 * m.worst_overload)
    }),
    ("overload, mean", |m| {
        format!("{:.1}%", 100.0 * m.mean_overload)
    }),
    ("traffic in its zone, mean", |m| {
        format!("{:.2}%", 100.0 * m.mean_in_zone_share)
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
        write!(out, "{:>21}", value(heuristic))?;
    }
    writeln!(out, "{style:#}")
}
