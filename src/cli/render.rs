//! Reports for people, for terminals of 80 columns.

use std::io::{self, Write};

use anstyle::{AnsiColor, Color, Style};
use serde::Serialize;

use crate::planner::capacity::Measure;
use crate::planner::heuristic::Heuristic;
use crate::planner::kube_proxy::Mode;
use crate::report::{
    CapacityReport, IgnoredNodeReport, PortsReport, RemedyReport, Report, ServiceReport,
    TradeOffReport, ZoneReport, behind, load,
};
use crate::words;

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

/// For errors.
pub const RED: Style = colour(AnsiColor::Red).bold();
/// For what is well.
pub const GREEN: Style = colour(AnsiColor::Green);
/// For what is to be looked at.
pub const YELLOW: Style = colour(AnsiColor::Yellow);
/// For what is to be done, and for bars.
pub const CYAN: Style = colour(AnsiColor::Cyan);
/// For what is said by the way.
pub const DIM: Style = Style::new().dimmed();
/// For headings.
pub const BOLD: Style = Style::new().bold();
/// For all else.
pub const PLAIN: Style = Style::new();

/// How an answer looks.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum Output {
    #[default]
    Table,
    Json,
}

/// Prints an answer as JSON.
pub fn json(answer: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, answer)?;
    writeln!(out)
}

/// Columns of a line.
const WIDTH: usize = 80;
const INDENT: &str = "  ";

/// Prints a report.
pub fn report(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.opted_in_services == 0 && !report.services.is_empty() {
        paragraph(out, YELLOW, ("", ""), NONE_OPTED_IN)?;
        writeln!(out)?;
    }
    capacity(out, &report.capacity)?;
    for report in &report.services {
        writeln!(out)?;
        service(out, report)?;
    }
    Ok(())
}

const NONE_OPTED_IN: &str = "No Service is opted in, so zonewise changes nothing. Below, \"To opt in\" says what a Service would gain; \
                             `zonewise explain -A` shows all.";

/// Prints a text whose lines begin with `first` and then with `rest`, as many as it takes.
pub fn paragraph(
    out: &mut impl Write,
    style: Style,
    (first, rest): (&str, &str),
    text: &str,
) -> io::Result<()> {
    let mut indent = first;
    for line in wrap(text, WIDTH - rest.len()) {
        writeln!(out, "{indent}{style}{line}{style:#}")?;
        indent = rest;
    }
    Ok(())
}

/// Breaks a text between words; a word that is longer than a line has one of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// A name that fits: its beginning and its end, which tell zones apart.
fn shortened(name: &str, most: usize) -> String {
    let name: Vec<char> = name.chars().collect();
    if name.len() <= most {
        return name.iter().collect();
    }
    let end = most / 2;
    let beginning = name[..most - 1 - end].iter();
    beginning
        .chain(&['…'])
        .chain(&name[name.len() - end..])
        .collect()
}

/// How a table divides its lines between the names of zones, bars and the other columns.
struct Columns {
    name: usize,
    bar: usize,
}

impl Columns {
    const WIDEST_BAR: usize = 16;
    const NARROWEST_BAR: usize = 4;

    /// For zones of these names, where other columns and the gaps before them take `others` columns and the gap
    /// before the bar comes on top.
    fn new<'a>(names: impl Iterator<Item = &'a str>, others: usize) -> Self {
        let free = WIDTH - INDENT.len() - others;
        let name = names.map(length).max().unwrap_or(0);
        let name = name.clamp("zone".len(), free);
        let bar = (free - name)
            .saturating_sub(GAP.len())
            .min(Self::WIDEST_BAR);
        Self {
            name,
            bar: if bar < Self::NARROWEST_BAR { 0 } else { bar },
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{INDENT}{:w$}", shortened(name, self.name), w = self.name)
    }

    /// The gap and a bar of a length between 0 and 1, where there is room for bars.
    fn bar(&self, part: f64) -> String {
        if self.bar == 0 {
            return String::new();
        }
        format!("{GAP}{CYAN}{}{CYAN:#}", bar(part, self.bar))
    }

    fn no_bar(&self) -> String {
        if self.bar == 0 {
            return String::new();
        }
        format!("{GAP}{:w$}", "", w = self.bar)
    }
}

const GAP: &str = "  ";

/// Prints the zones' shares, and the nodes that lack something or do not count.
fn capacity(out: &mut impl Write, capacity: &CapacityReport) -> io::Result<()> {
    const SHARE_CORES_AND_NODES: usize = 36;
    let measure = match capacity.measure {
        Measure::Cpu => "allocatable CPU",
        Measure::Nodes => "their nodes",
    };
    writeln!(out, "{BOLD}Zones by {measure}{BOLD:#}")?;
    let names = capacity.zones.iter().map(|zone| &*zone.name);
    let columns = Columns::new(names, SHARE_CORES_AND_NODES);
    for zone in &capacity.zones {
        writeln!(
            out,
            "{}{} {:5.1}%  {} on {}",
            columns.name(&zone.name),
            columns.bar(zone.share),
            zone.share * 100.0,
            cores(zone.milli_cpu),
            words::count(zone.nodes as usize, "node"),
        )?;
    }
    if capacity.frozen {
        let held = "held as it was: too many nodes are NotReady at once";
        paragraph(out, YELLOW, (INDENT, INDENT), held)?;
    }
    if let Some(message) = &capacity.message {
        paragraph(out, RED, (INDENT, INDENT), message)?;
    } else if !capacity.insufficient_nodes.is_empty() {
        let names: Vec<&str> = capacity
            .insufficient_nodes
            .iter()
            .map(|node| &*node.name)
            .collect();
        let tolerated = format!(
            "without zone or CPU, as --node-info-tolerance allows: {}",
            words::first(&names)
        );
        paragraph(out, YELLOW, (INDENT, INDENT), &tolerated)?;
    }
    left_out(out, &capacity.ignored_nodes)?;
    notes(out, &capacity.notes)
}

fn notes(out: &mut impl Write, notes: &[String]) -> io::Result<()> {
    for note in notes {
        paragraph(out, DIM, (INDENT, INDENT), note)?;
    }
    Ok(())
}

/// Names the nodes that do not count, by the reason.
fn left_out(out: &mut impl Write, nodes: &[IgnoredNodeReport]) -> io::Result<()> {
    const REASONS: [(&str, &str); 4] = [
        ("ControlPlane", "ControlPlane"),
        ("NotSelected", "NotSelected by --capacity-node-selector"),
        ("NotReady", "NotReady"),
        ("Settling", "Settling: new, and still without zone or CPU"),
    ];
    let mut heading = "  Left out: ";
    for (because, in_words) in REASONS {
        let names: Vec<&str> = nodes
            .iter()
            .filter(|node| node.because == because)
            .map(|node| &*node.name)
            .collect();
        if !names.is_empty() {
            let text = format!("{} ({in_words})", words::first(&names));
            paragraph(out, DIM, (heading, "            "), &text)?;
            heading = "            ";
        }
    }
    Ok(())
}

/// The figures of endpoints that all have the same ports.
struct Figures<'a> {
    service: &'a ServiceReport,
    zones: &'a [ZoneReport],
    ready: usize,
    in_zone: Option<f64>,
    worst_overload: Option<f64>,
}

impl<'a> Figures<'a> {
    fn of_all(service: &'a ServiceReport) -> Self {
        Self {
            service,
            zones: &service.zones,
            ready: service.ready_endpoints,
            in_zone: service.in_zone_share,
            worst_overload: service.worst_overload,
        }
    }

    fn of_ports(service: &'a ServiceReport, ports: &'a PortsReport) -> Self {
        Self {
            service,
            zones: &ports.zones,
            ready: ports.ready_endpoints,
            in_zone: ports.in_zone_share,
            worst_overload: ports.worst_overload,
        }
    }

    /// Whether any endpoint is hinted, or kube-proxy follows hints in any zone.
    fn are_hinted(&self) -> bool {
        let mut zones = self.zones.iter();
        zones.any(|zone| zone.hinted > 0 || !matches!(zone.mode, Mode::Cluster(_)))
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.zones.iter().map(|zone| &*zone.name)
    }
}

/// Prints one Service.
fn service(out: &mut impl Write, service: &ServiceReport) -> io::Result<()> {
    heading(out, service)?;
    paragraph(out, PLAIN, (INDENT, INDENT), &service.message)?;
    let is_used = service.kube_proxy_chooses && service.ready_endpoints > 0;
    if is_used && service.decision != "Kept" {
        if service.ports.is_empty() {
            figures(out, &Figures::of_all(service))?;
        }
        for ports in &service.ports {
            writeln!(out, "{INDENT}{BOLD}Behind {}{BOLD:#}", behind(&ports.ports))?;
            figures(out, &Figures::of_ports(service, ports))?;
        }
        remedies(out, service)?;
        trade_offs(out, &service.trade_offs)?;
    }
    notes(out, &service.notes)
}

fn figures(out: &mut impl Write, figures: &Figures<'_>) -> io::Result<()> {
    if figures.ready == 0 {
        return writeln!(out, "{INDENT}{DIM}no ready endpoint{DIM:#}");
    }
    if figures.are_hinted() {
        hinted_zones(out, figures)?;
        exceptions(out, figures.zones)?;
    } else if figures.service.decision == "Strip" {
        zones_without_hints(out, figures)?;
    }
    let outcome = outcome(figures);
    paragraph(out, DIM, (INDENT, INDENT), &outcome.unwrap_or_default())
}

/// Says what would help, each in a line.
fn remedies(out: &mut impl Write, service: &ServiceReport) -> io::Result<()> {
    let first = match service.decision {
        "Hints" => "Would keep more: ",
        "Untouched" => "To opt in: ",
        _ => "Would help: ",
    };
    let width = first.len();
    for (place, remedy) in service.remedies.iter().enumerate() {
        let begins = if place == 0 { first } else { "or: " };
        let (begins, rest) = (
            format!("{INDENT}{begins:>width$}"),
            " ".repeat(INDENT.len() + width),
        );
        paragraph(out, PLAIN, (&begins, &rest), &remedy_in_words(remedy))?;
    }
    Ok(())
}

fn remedy_in_words(remedy: &RemedyReport) -> String {
    let keeps = |in_zone: f64, overload: f64| {
        let at = if overload < 0.005 {
            String::new()
        } else {
            format!(" at {:.0}% above the average", overload * 100.0)
        };
        format!(
            "which keeps {:.0}% of the traffic in its zone{at}",
            in_zone * 100.0
        )
    };
    match remedy {
        RemedyReport::Endpoints {
            endpoints,
            zones,
            behind: by_ports,
        } => {
            let more = words::count(*endpoints as usize, "more ready endpoint");
            let mut parts: Vec<String> = Vec::new();
            for each in by_ports {
                let place = behind(&each.ports);
                let zones = each.zones.iter();
                parts.extend(zones.map(|(zone, more)| format!("{more} in {zone} behind {place}")));
            }
            if by_ports.is_empty() {
                parts.extend(zones.iter().map(|(zone, more)| format!("{more} in {zone}")));
            }
            format!("{more}: {}", parts.join(", "))
        }
        RemedyReport::Threshold {
            threshold,
            in_zone_share,
            worst_overload,
        } => format!(
            "the annotation zonewise.dev/overload-threshold: \"{threshold}\", {}",
            keeps(*in_zone_share, *worst_overload)
        ),
        RemedyReport::Overlap {
            in_zone_share,
            worst_overload,
        } => format!(
            "the annotation service.kubernetes.io/topology-mode: zonewise.dev/Overlap, {}",
            keeps(*in_zone_share, *worst_overload)
        ),
    }
}

/// Prints what each threshold keeps in its zone.
fn trade_offs(out: &mut impl Write, trade_offs: &[TradeOffReport]) -> io::Result<()> {
    if trade_offs.len() < 2 {
        return Ok(());
    }
    writeln!(out, "{INDENT}{DIM}threshold  in zone  busiest{DIM:#}")?;
    for each in trade_offs {
        let percent = |part: f64| format!("{:.0}%", part * 100.0);
        let mark = if each.current { "  now" } else { "" };
        writeln!(
            out,
            "{INDENT}{:>9}  {:>7}  {:>+6.0}%{mark}",
            percent(each.threshold),
            percent(each.in_zone_share),
            each.worst_overload.max(0.0) * 100.0,
        )?;
    }
    Ok(())
}

fn heading(out: &mut impl Write, service: &ServiceReport) -> io::Result<()> {
    let style = match service.decision {
        "Hints" => GREEN,
        "Strip" => YELLOW,
        "Kept" => CYAN,
        _ => DIM,
    };
    let name = if service.name.is_empty() {
        "(slices of no Service)".to_owned()
    } else {
        format!("{}/{}", service.namespace, service.name)
    };
    let reason = service
        .reason
        .map(|reason| format!(" {reason}"))
        .unwrap_or_default();
    let (address_type, decision) = (service.address_type, service.decision);
    let whole = length(&format!("{name} {address_type}  {decision}{reason}"));
    let gap = if whole <= WIDTH { "  " } else { "\n  " };
    writeln!(
        out,
        "{BOLD}{name}{BOLD:#} {address_type}{gap}{style}{decision}{style:#}{reason}",
    )
}

fn hinted_zones(out: &mut impl Write, figures: &Figures<'_>) -> io::Result<()> {
    const OTHERS: usize = 59;
    let columns = Columns::new(figures.names(), OTHERS);
    let most = figures.zones.iter().map(|zone| zone.hinted).max();
    writeln!(
        out,
        "{}{DIM}  {:>6}  {:>5}  {:>7}  {:>6}{}  {:>8}  kube-proxy uses{DIM:#}",
        columns.name("zone"),
        "share",
        "ready",
        "minimum",
        "hinted",
        columns.no_bar(),
        "overload",
    )?;
    for zone in figures.zones {
        #[expect(clippy::cast_precision_loss)]
        let part = zone.hinted as f64 / most.unwrap_or(0).max(1) as f64;
        writeln!(
            out,
            "{}  {:>5.1}%  {:>5}  {:>7}  {:>6}{}  {:>8}  {}",
            columns.name(&zone.name),
            zone.share * 100.0,
            zone.endpoints,
            minimum(figures.service, zone),
            zone.hinted,
            columns.bar(part),
            overload(zone),
            used(zone),
        )?;
    }
    Ok(())
}

fn zones_without_hints(out: &mut impl Write, figures: &Figures<'_>) -> io::Result<()> {
    const OTHERS: usize = 24;
    let columns = Columns::new(figures.names(), OTHERS);
    writeln!(
        out,
        "{}{DIM}  {:>6}  {:>5}  {:>7}{DIM:#}",
        columns.name("zone"),
        "share",
        "ready",
        "minimum",
    )?;
    for zone in figures.zones {
        writeln!(
            out,
            "{}  {:>5.1}%  {:>5}  {:>7}",
            columns.name(&zone.name),
            zone.share * 100.0,
            zone.endpoints,
            minimum(figures.service, zone),
        )?;
    }
    Ok(())
}

/// How many endpoints a zone needs that serve no other, which Overlap does not ask for.
fn minimum(service: &ServiceReport, zone: &ZoneReport) -> String {
    if service.heuristic == Some(Heuristic::Overlap.word()) {
        return "-".to_owned();
    }
    zone.minimum.to_string()
}

fn overload(zone: &ZoneReport) -> String {
    zone.overload.map_or_else(
        || "-".to_owned(),
        |overload| format!("{:+.0}%", overload * 100.0),
    )
}

fn used(zone: &ZoneReport) -> String {
    match zone.mode {
        Mode::PreferSameNode => "its own node's".to_owned(),
        Mode::PreferSameZone => format!("its {} hinted", zone.hinted),
        Mode::Cluster(_) => "all endpoints".to_owned(),
    }
}

/// Says of zones where hints are not followed, or on some nodes alone, why that is.
fn exceptions(out: &mut impl Write, zones: &[ZoneReport]) -> io::Result<()> {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for zone in zones {
        let Some(sentence) = exception(zone) else {
            continue;
        };
        match told.iter_mut().find(|(other, _)| *other == sentence) {
            Some((_, names)) => names.push(&zone.name),
            None => told.push((sentence, vec![&zone.name])),
        }
    }
    for (sentence, names) in told {
        let text = format!("{}: {sentence}", words::first(&names));
        paragraph(out, DIM, (INDENT, "    "), &text)?;
    }
    Ok(())
}

fn exception(zone: &ZoneReport) -> Option<String> {
    if let Some(because) = zone.mode.because() {
        return Some(format!("hints are not followed, since {because}"));
    }
    let elsewhere = match zone.mode_elsewhere {
        _ if zone.mode != Mode::PreferSameNode => return None,
        Mode::PreferSameZone => "the zone's hinted endpoints",
        Mode::PreferSameNode | Mode::Cluster(_) => "all endpoints",
    };
    Some(format!("nodes that no endpoint names use {elsewhere}"))
}

/// Where traffic goes in the end; nothing where that is not known and nothing else is to be said.
fn outcome(figures: &Figures<'_>) -> Option<String> {
    let stays = figures
        .in_zone
        .map(|share| format!("{:.0}% of traffic stays in its zone", share * 100.0));
    if !figures.are_hinted() {
        let stays = stays.map(|stays| format!("; {stays}")).unwrap_or_default();
        return Some(format!("kube-proxy uses all ready endpoints{stays}."));
    }
    // With `Hints` the message has said it.
    let worst = figures
        .worst_overload
        .filter(|_| figures.service.decision != "Hints");
    let worst = worst.map(|worst| format!("; {}", load(worst)));
    stays.map(|stays| format!("{stays}{}.", worst.unwrap_or_default()))
}

/// A bar of a length between 0 and 1.
fn bar(part: f64, width: usize) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let full = (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "·".repeat(width - full))
}

fn cores(milli: u64) -> String {
    let (whole, rest) = (milli / 1000, milli % 1000);
    match (whole, rest) {
        (1, 0) => "1 core".to_owned(),
        (whole, 0) => format!("{whole} cores"),
        (whole, rest) => {
            let decimal = format!("{whole}.{rest:03}");
            format!("{} cores", decimal.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a-long-word b", 4), ["a-long-word", "b"]);
        assert_eq!(wrap("", 4), [""; 0]);
    }

    #[test]
    fn a_long_name_keeps_both_its_ends() {
        assert_eq!(
            shortened("us-east-1-wl1-nyc-wlz-1", 19),
            "us-east-1…nyc-wlz-1"
        );
        assert_eq!(shortened("zone-a", 6), "zone-a");
    }

    #[test]
    fn bars_make_room_for_names() {
        let columns = |name: &str| {
            let columns = Columns::new([name].into_iter(), 59);
            (columns.name, columns.bar)
        };
        assert_eq!(columns("zone-a"), (6, 11));
        assert_eq!(columns("europe-west4"), (12, 5));
        assert_eq!(columns("us-east-1-wl1-nyc-wlz-1"), (19, 0));
    }

    #[test]
    fn one_core_is_not_several() {
        assert_eq!(
            [1000, 500, 4000, 3920].map(cores),
            ["1 core", "0.5 cores", "4 cores", "3.92 cores"]
        );
    }
}
