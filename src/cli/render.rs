//! Reports for people.

use std::io::{self, Write};

use anstyle::{AnsiColor, Color, Style};

use crate::report::{CapacityReport, Report, ServiceReport, ZoneReport};

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

/// For errors.
pub const RED: Style = colour(AnsiColor::Red).bold();
const GREEN: Style = colour(AnsiColor::Green);
const YELLOW: Style = colour(AnsiColor::Yellow);
const CYAN: Style = colour(AnsiColor::Cyan);
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// Prints a report.
pub fn report(out: &mut impl Write, report: &Report) -> io::Result<()> {
    capacity(out, &report.capacity)?;
    for report in &report.services {
        writeln!(out)?;
        service(out, report)?;
    }
    Ok(())
}

/// Prints the zones' shares, and the nodes that lack something.
pub fn capacity(out: &mut impl Write, capacity: &CapacityReport) -> io::Result<()> {
    writeln!(out, "{BOLD}Zones by allocatable CPU{BOLD:#}")?;
    let width = capacity
        .zones
        .iter()
        .map(|zone| zone.name.len())
        .max()
        .unwrap_or(0);
    for zone in &capacity.zones {
        writeln!(
            out,
            "  {:width$}  {CYAN}{}{CYAN:#} {:5.1}%  {} cores on {} node{}",
            zone.name,
            bar(zone.share, BAR_WIDTH),
            zone.share * 100.0,
            cores(zone.milli_cpu),
            zone.nodes,
            plural(zone.nodes as usize),
        )?;
    }
    if capacity.frozen {
        writeln!(
            out,
            "  {YELLOW}held as it was: too many nodes are NotReady at once{YELLOW:#}"
        )?;
    }
    if let Some(message) = &capacity.message {
        writeln!(out, "  {RED}{message}{RED:#}")?;
    }
    let mut ignored: Vec<(&str, usize)> = Vec::new();
    for node in &capacity.ignored_nodes {
        match ignored
            .iter_mut()
            .find(|(because, _)| *because == node.because)
        {
            Some((_, count)) => *count += 1,
            None => ignored.push((node.because, 1)),
        }
    }
    for (because, count) in ignored {
        writeln!(
            out,
            "  {DIM}{count} node{} left out: {because}{DIM:#}",
            plural(count)
        )?;
    }
    Ok(())
}

/// Prints one Service.
pub fn service(out: &mut impl Write, service: &ServiceReport) -> io::Result<()> {
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
    writeln!(
        out,
        "{BOLD}{name}{BOLD:#} {}  {style}{}{style:#}{reason}",
        service.address_type, service.decision
    )?;
    writeln!(out, "  {}", service.message)?;
    let decided = matches!(service.decision, "Hints" | "Strip");
    if !decided || service.ready_endpoints == 0 || service.zones.is_empty() {
        return Ok(());
    }
    zones(out, service)?;
    if let Some(share) = service.in_zone_share {
        let worst = service.worst_overload.unwrap_or(0.0).max(0.0);
        writeln!(
            out,
            "  {DIM}{:.0}% of the traffic stays in its zone; the busiest endpoint carries {:.0}% above the average{DIM:#}",
            share * 100.0,
            worst * 100.0
        )?;
    }
    Ok(())
}

fn zones(out: &mut impl Write, service: &ServiceReport) -> io::Result<()> {
    let width = service
        .zones
        .iter()
        .map(|zone| zone.name.len())
        .max()
        .unwrap_or(0)
        .max("zone".len());
    let most = service
        .zones
        .iter()
        .map(|zone| zone.hinted.max(zone.endpoints))
        .max()
        .unwrap_or(1)
        .max(1);
    writeln!(
        out,
        "  {DIM}{:width$}  {:>6}  {:>9}  {:>7}  {:>6}  {:w$}  {:>8}  kube-proxy{DIM:#}",
        "zone",
        "CPU",
        "endpoints",
        "minimum",
        "hinted",
        "",
        "overload",
        w = BAR_WIDTH
    )?;
    let any_hint = service.zones.iter().any(|zone| zone.hinted > 0);
    for zone in &service.zones {
        #[expect(clippy::cast_precision_loss)]
        let part = zone.hinted as f64 / most as f64;
        writeln!(
            out,
            "  {:width$}  {:>5.1}%  {:>9}  {:>7}  {:>6}  {CYAN}{}{CYAN:#}  {:>8}  {}",
            zone.name,
            zone.share * 100.0,
            zone.endpoints,
            zone.minimum,
            zone.hinted,
            bar(part, BAR_WIDTH),
            overload(zone),
            proxy(zone, any_hint),
        )?;
    }
    Ok(())
}

fn overload(zone: &ZoneReport) -> String {
    zone.overload.map_or_else(
        || "-".to_owned(),
        |overload| format!("{:+.0}%", overload * 100.0),
    )
}

fn proxy(zone: &ZoneReport, any_hint: bool) -> String {
    match zone.kube_proxy_because {
        Some(_) if !any_hint => "all endpoints".to_owned(),
        None => format!("its {} hinted endpoints", zone.hinted),
        Some(because) => format!("all endpoints: {because}"),
    }
}

const BAR_WIDTH: usize = 16;

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
    if rest == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{rest:03}")
            .trim_end_matches('0')
            .to_owned()
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
