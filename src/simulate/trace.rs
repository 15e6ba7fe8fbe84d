//! Traces: what happens to the nodes of a cluster and the pods of one Service, as JSON lines.
//!
//! `docs/simulate.md` describes the format for those who write one by hand.

use std::fmt;
use std::io::{self, BufRead, Read as _, Write};
use std::net::Ipv4Addr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::world::World;
use crate::words::printable;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// What a trace begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// What it was made from, if that was a seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Every zone that nodes are in.
    pub zones: Vec<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// Its zone, one of the header's.
    pub zone: String,
    /// Its allocatable CPU in thousandths of a CPU, above 0.
    pub milli_cpu: u64,
}

/// A pod of the Service, ready from the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pod {
    /// Its name; no two pods of a trace share one.
    pub pod: String,
    /// The node that it runs on.
    pub node: String,
    /// Its address.
    pub ip: Ipv4Addr,
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Event {
    /// What there is before anything happens.
    Start {
        /// The nodes.
        nodes: Vec<Node>,
        /// The pods.
        pods: Vec<Pod>,
    },
    /// A pod becomes ready.
    PodAdded(Pod),
    /// A pod is gone.
    PodRemoved {
        /// Its name.
        pod: String,
    },
    /// A pod is gone and another is ready in its place, as in a rolling update.
    PodReplaced {
        /// The name of the one that is gone.
        pod: String,
        /// The other.
        by: Pod,
    },
    /// A node is ready.
    NodeAdded(Node),
    /// A node is gone, and the pods on it too.
    NodeRemoved {
        /// Its name.
        node: String,
    },
    /// A node has more or less CPU.
    NodeResized {
        /// Its name.
        node: String,
        /// Its allocatable CPU in thousandths of a CPU, above 0.
        milli_cpu: u64,
    },
    /// All nodes of a zone turn NotReady, and the pods on them are gone.
    ZoneLost {
        /// Its name.
        zone: String,
    },
    /// All nodes of a lost zone are ready again, with no pod on them.
    ZoneBack {
        /// Its name.
        zone: String,
    },
}

impl Event {
    /// Its word in a trace.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::PodAdded(_) => "podAdded",
            Self::PodRemoved { .. } => "podRemoved",
            Self::PodReplaced { .. } => "podReplaced",
            Self::NodeAdded(_) => "nodeAdded",
            Self::NodeRemoved { .. } => "nodeRemoved",
            Self::NodeResized { .. } => "nodeResized",
            Self::ZoneLost { .. } => "zoneLost",
            Self::ZoneBack { .. } => "zoneBack",
        }
    }
}

/// A whole trace. It has been tried out: every event can happen after those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What it begins with.
    pub header: Header,
    /// The first is [`Event::Start`], and no other.
    pub events: Vec<Event>,
}

/// A line of a trace that can't be.
#[derive(Debug, thiserror::Error)]
pub struct TraceError {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The field, such as `podAdded.node`; empty where it is the whole line.
    pub field: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.problem)
    }
}

/// What is wrong with a line.
struct Fault {
    field: String,
    problem: String,
}

impl Fault {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: printable(&field.into()),
            problem: printable(&problem.into()),
        }
    }
}

/// Reads every trace of a file; `file` is its name for errors.
///
/// # Errors
/// [`TraceError`] for the first line that can't be.
pub fn read(file: &str, mut lines: impl BufRead) -> Result<Vec<Trace>, TraceError> {
    let mut reader = Reader::default();
    let mut number = 0;
    loop {
        let line = next_line(&mut lines).map_err(|fault| at_line(file, number + 1, fault))?;
        let Some(line) = line else { break };
        number += 1;
        reader
            .take(&line)
            .map_err(|fault| at_line(file, number, fault))?;
    }
    reader
        .finish()
        .map_err(|fault| at_line(file, number.max(1), fault))
}

/// A start with a million pods fits; what never ends a line does not fill the memory.
const LONGEST_LINE: u64 = 256 << 20;

fn next_line(lines: &mut impl BufRead) -> Result<Option<String>, Fault> {
    let mut line = Vec::new();
    let read = lines.take(LONGEST_LINE).read_until(b'\n', &mut line);
    match read {
        Ok(0) => Ok(None),
        Ok(bytes) if bytes as u64 == LONGEST_LINE => {
            let problem = format!("is longer than {} MiB", LONGEST_LINE >> 20);
            Err(Fault::new("", problem))
        }
        Ok(_) => String::from_utf8(line)
            .map(Some)
            .map_err(|_| Fault::new("", "can't be read: it is not UTF-8")),
        Err(error) => Err(Fault::new("", format!("can't be read: {error}"))),
    }
}

fn at_line(file: &str, line: usize, fault: Fault) -> TraceError {
    TraceError {
        file: file.to_owned(),
        line,
        field: fault.field,
        problem: fault.problem,
    }
}

#[derive(Default)]
struct Reader {
    traces: Vec<Trace>,
    world: World,
}

impl Reader {
    fn take(&mut self, line: &str) -> Result<(), Fault> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let value: serde_json::Value = serde_json::from_str(line)
            .map_err(|error| Fault::new("", format!("no line of JSON: {error}")))?;
        let Some(header) = value.get("header") else {
            return self.add(parse("", &value)?);
        };
        if value.as_object().is_some_and(|line| line.len() > 1) {
            return Err(Fault::new("header", "must stand in a line of its own"));
        }
        self.begin(parse("header", header)?)
    }

    fn begin(&mut self, header: Header) -> Result<(), Fault> {
        self.check_last()?;
        if header.version != VERSION {
            let problem = format!(
                "{} is not known here; this zonewise reads version {VERSION}",
                header.version
            );
            return Err(Fault::new("header.version", problem));
        }
        let mut zones = header.zones.clone();
        zones.sort_unstable();
        zones.dedup();
        if zones.is_empty() || zones.len() < header.zones.len() || zones[0].is_empty() {
            let problem = "must name each zone once, and at least one";
            return Err(Fault::new("header.zones", problem));
        }
        self.world = World::new(&header.zones);
        self.traces.push(Trace {
            header,
            events: Vec::new(),
        });
        Ok(())
    }

    fn add(&mut self, event: Event) -> Result<(), Fault> {
        let Some(trace) = self.traces.last_mut() else {
            return Err(Fault::new("", "a trace begins with a line {\"header\":…}"));
        };
        let is_first = trace.events.is_empty();
        if is_first != matches!(event, Event::Start { .. }) {
            let problem = "is the one event behind the header, and no other is it";
            return Err(Fault::new("start", problem));
        }
        self.world.apply(&event).map_err(|refused| {
            Fault::new(
                format!("{}.{}", event.word(), refused.field),
                refused.problem,
            )
        })?;
        trace.events.push(event);
        Ok(())
    }

    fn check_last(&self) -> Result<(), Fault> {
        match self.traces.last() {
            Some(trace) if trace.events.is_empty() => {
                Err(Fault::new("start", "is missing behind the header"))
            }
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Vec<Trace>, Fault> {
        self.check_last()?;
        if self.traces.is_empty() {
            return Err(Fault::new("header", "is missing: the file has no trace"));
        }
        Ok(self.traces)
    }
}

/// Reads a value; an error names the field below `parent`.
fn parse<T: DeserializeOwned>(parent: &str, value: &serde_json::Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = match (parent, path.as_str()) {
            (parent, ".") => parent.to_owned(),
            ("", path) => path.to_owned(),
            (parent, path) => format!("{parent}.{path}"),
        };
        Fault::new(field, error.into_inner().to_string())
    })
}

/// Writes a trace as it is read.
///
/// # Errors
/// When the lines can't be written.
pub fn write(out: &mut (impl Write + ?Sized), trace: &Trace) -> io::Result<()> {
    #[derive(Serialize)]
    struct HeaderLine<'a> {
        header: &'a Header,
    }
    let header = HeaderLine {
        header: &trace.header,
    };
    serde_json::to_writer(&mut *out, &header)?;
    writeln!(out)?;
    for event in &trace.events {
        serde_json::to_writer(&mut *out, event)?;
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"header":{"version":1,"zones":["zone-a","zone-b"]}}"#;
    const START: &str = r#"{"start":{"nodes":[{"node":"n1","zone":"zone-a","milliCpu":2000}],"pods":[{"pod":"p1","node":"n1","ip":"10.0.0.1"}]}}"#;

    fn problem(lines: &[&str]) -> String {
        read("a.jsonl", lines.join("\n").as_bytes())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = format!("{HEADER}\n{START}\n{{\"podRemoved\":{{\"pod\":\"p1\"}}}}\n");
        let traces = read("a.jsonl", text.as_bytes()).unwrap();
        let mut written = Vec::new();
        write(&mut written, &traces[0]).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }

    #[test]
    fn a_file_holds_as_many_traces_as_headers() {
        let text = [HEADER, START, "", HEADER, START].join("\n");
        assert_eq!(read("a.jsonl", text.as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn errors_name_file_line_and_field() {
        assert_eq!(
            problem(&[
                HEADER,
                START,
                r#"{"podAdded":{"pod":"p2","node":"n1","ip":7}}"#
            ]),
            "a.jsonl:3: podAdded.ip: invalid type: integer `7`, expected IPv4 address"
        );
        assert_eq!(
            problem(&[
                HEADER,
                START,
                r#"{"podAdded":{"pod":"p2","node":"n9","ip":"10.0.0.2"}}"#
            ]),
            "a.jsonl:3: podAdded.node: there is no node n9 now"
        );
        assert_eq!(
            problem(&[&HEADER.replace(":1", ":2")]),
            "a.jsonl:1: header.version: 2 is not known here; this zonewise reads version 1"
        );
        assert!(problem(&[HEADER, START, "{"]).starts_with("a.jsonl:3: no line of JSON: "));
        assert!(
            problem(&[HEADER, START, r#"{"podRemoved":{}}"#])
                .starts_with("a.jsonl:3: podRemoved: missing field `pod`")
        );
        assert!(
            problem(&[HEADER, START, r#"{"podGone":{}}"#]).contains("unknown variant `podGone`")
        );
    }

    #[test]
    fn a_trace_has_a_header_and_one_start_behind_it() {
        assert_eq!(
            problem(&[""]),
            "a.jsonl:1: header: is missing: the file has no trace"
        );
        assert_eq!(
            problem(&[START]),
            "a.jsonl:1: a trace begins with a line {\"header\":…}"
        );
        assert_eq!(
            problem(&[HEADER]),
            "a.jsonl:1: start: is missing behind the header"
        );
        assert!(problem(&[HEADER, START, START]).starts_with("a.jsonl:3: start: "));
        assert!(
            problem(&[HEADER, r#"{"podRemoved":{"pod":"p1"}}"#]).starts_with("a.jsonl:2: start: ")
        );
    }
}
