//! A chart over time, as SVG: a panel for each measure, a line in it for each heuristic.

use std::fmt::Write as _;

use super::Point;

/// A line of each panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// A point for each event.
    pub points: Vec<Point>,
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 84.0;
const PANEL: f64 = 170.0;
const GAP: f64 = 46.0;
const BOTTOM: f64 = 56.0;

/// Colours of Okabe and Ito, which colour-blind people can tell apart, each with its own dashes for those who see none.
const STROKES: [(&str, &str); 4] = [
    ("#0072b2", "none"),
    ("#d55e00", "8 4"),
    ("#009e73", "2 3"),
    ("#cc79a7", "10 3 2 3"),
];

/// A measure that has a panel.
struct Panel {
    title: &'static str,
    unit: &'static str,
    value: fn(&Point) -> Option<f64>,
    /// What the axis reaches even where no value does.
    least_top: f64,
}

#[expect(clippy::cast_precision_loss, reason = "no trace has 2^53 changes")]
const PANELS: [Panel; 3] = [
    Panel {
        title: "Traffic that stays in its zone",
        unit: "%",
        value: |point| point.in_zone_share.map(|share| 100.0 * share),
        least_top: 100.0,
    },
    Panel {
        title: "Worst overload: the busiest endpoint above the average",
        unit: "%",
        value: |point| point.worst_overload.map(|overload| 100.0 * overload),
        least_top: 20.0,
    },
    Panel {
        title: "Changed hints of endpoints that stay, since the start",
        unit: "hints",
        value: |point| Some(point.hint_changes as f64),
        least_top: 10.0,
    },
];

/// Draws a chart. Its title, axes and legend are text, so that a screen reader finds them.
#[must_use]
pub fn draw(title: &str, lines: &[Line]) -> String {
    let height = TOP + f64_of(PANELS.len()) * (PANEL + GAP) - GAP + BOTTOM;
    let mut svg = String::new();
    svg.push_str(&opening(title, lines, height));
    svg.push_str(&text(LEFT, 30.0, "start", "title", title));
    svg.push_str(&legend(lines));
    let events = lines.iter().map(|line| line.points.len()).max();
    let events = f64_of(events.unwrap_or(0).max(1));
    for (number, panel) in PANELS.iter().enumerate() {
        let top = TOP + f64_of(number) * (PANEL + GAP);
        let values = lines.iter().flat_map(|line| &line.points);
        let most = values
            .filter_map(panel.value)
            .fold(panel.least_top, f64::max);
        let frame = Frame {
            top,
            events,
            step: nice_step(most),
            most: (most / nice_step(most)).ceil() * nice_step(most),
        };
        svg.push_str(&text(LEFT, top - 10.0, "start", "panel", panel.title));
        svg.push_str(&frame.axes(panel.unit, number + 1 == PANELS.len()));
        for (line, stroke) in lines.iter().zip(STROKES.iter().cycle()) {
            svg.push_str(&frame.line(line, panel.value, *stroke));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn opening(title: &str, lines: &[Line], height: f64) -> String {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let panels: Vec<&str> = PANELS.iter().map(|panel| panel.title).collect();
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title description">
<title id="title">{}</title>
<desc id="description">Over events, for {}: {}.</desc>
<style>
text {{ font: 13px sans-serif; fill: #222 }}
.title {{ font-size: 18px; font-weight: bold }}
.panel {{ font-weight: bold }}
.grid {{ stroke: #ddd }}
.axis {{ stroke: #555 }}
.line {{ fill: none; stroke-width: 1.8 }}
</style>
<rect width="100%" height="100%" fill="#fff"/>
"##,
        escaped(title),
        escaped(&names.join(", ")),
        panels.join("; "),
    )
}

fn legend(lines: &[Line]) -> String {
    let mut svg = String::new();
    let mut x = LEFT;
    for (line, (colour, dashes)) in lines.iter().zip(STROKES.iter().cycle()) {
        let end = x + 34.0;
        let _ = writeln!(
            svg,
            r#"<line x1="{x}" y1="48" x2="{end}" y2="48" class="line" stroke="{colour}" stroke-dasharray="{dashes}"/>"#
        );
        svg.push_str(&text(end + 8.0, 52.0, "start", "name", &line.name));
        x = end + 30.0 + 9.0 * f64_of(line.name.chars().count());
    }
    svg
}

/// Where a panel is, and what its axes reach.
struct Frame {
    top: f64,
    events: f64,
    step: f64,
    most: f64,
}

impl Frame {
    fn x(&self, event: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * event / self.events
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL * (1.0 - value / self.most)
    }

    fn axes(&self, unit: &str, is_last: bool) -> String {
        let (right, bottom) = (WIDTH - RIGHT, self.top + PANEL);
        let mut svg = String::new();
        for value in ticks(self.most, self.step) {
            let y = self.y(value);
            let _ = writeln!(
                svg,
                r#"<line x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}" class="grid"/>"#
            );
            svg.push_str(&text(
                LEFT - 8.0,
                y + 4.0,
                "end",
                "tick",
                &format!("{value} {unit}"),
            ));
        }
        let _ = writeln!(
            svg,
            r#"<path d="M{LEFT} {top}V{bottom}H{right}" class="axis" fill="none"/>"#,
            top = self.top
        );
        for event in ticks(self.events, nice_step(self.events)) {
            svg.push_str(&text(
                self.x(event),
                bottom + 18.0,
                "middle",
                "tick",
                &event.to_string(),
            ));
        }
        if is_last {
            let middle = f64::midpoint(LEFT, right);
            svg.push_str(&text(
                middle,
                bottom + 40.0,
                "middle",
                "unit",
                "events since the start",
            ));
        }
        svg
    }

    /// The line breaks where there is no value.
    fn line(
        &self,
        line: &Line,
        value: fn(&Point) -> Option<f64>,
        (colour, dashes): (&str, &str),
    ) -> String {
        let mut path = String::new();
        let mut pen_is_up = true;
        for (number, point) in line.points.iter().enumerate() {
            let Some(value) = value(point) else {
                pen_is_up = true;
                continue;
            };
            let command = if pen_is_up { 'M' } else { 'L' };
            let (x, y) = (self.x(f64_of(number + 1)), self.y(value));
            let _ = write!(path, "{command}{x:.1} {y:.1}");
            pen_is_up = false;
        }
        format!(
            "<path d=\"{path}\" class=\"line\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"><title>{}</title></path>\n",
            escaped(&line.name)
        )
    }
}

fn text(x: f64, y: f64, anchor: &str, class: &str, text: &str) -> String {
    let text = escaped(text);
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// 1, 2 or 5 times a power of ten: so wide that there are at most five steps up to `most`.
fn nice_step(most: f64) -> f64 {
    let mut unit = 1.0;
    loop {
        for step in [unit, 2.0 * unit, 5.0 * unit] {
            if most <= 5.0 * step {
                return step;
            }
        }
        unit *= 10.0;
    }
}

fn ticks(most: f64, step: f64) -> impl Iterator<Item = f64> {
    (0..=5u8)
        .map(move |number| f64::from(number) * step)
        .take_while(move |tick| *tick <= most)
}

#[expect(clippy::cast_precision_loss, reason = "no trace has 2^53 events")]
fn f64_of(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, shares: &[Option<f64>]) -> Line {
        let point = |&in_zone_share| Point {
            in_zone_share,
            worst_overload: Some(0.1),
            hint_changes: 3,
        };
        Line {
            name: name.into(),
            points: shares.iter().map(point).collect(),
        }
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(
            [3.0, 10.0, 100.0, 173.0].map(|most| nice_step(most).to_string()),
            ["1", "2", "20", "50"]
        );
        assert_eq!(ticks(100.0, 20.0).last(), Some(100.0));
    }

    #[test]
    fn a_chart_says_in_words_what_it_shows() {
        let svg = draw("2 events of <x>", &[line("Auto", &[Some(0.5), Some(0.7)])]);
        for words in [
            "<title id=\"title\">2 events of &lt;x&gt;</title>",
            "for Auto: Traffic that stays in its zone; Worst overload",
            "class=\"name\">Auto</text>",
            "class=\"tick\">80 %</text>",
            "class=\"tick\">10 hints</text>",
            "events since the start",
        ] {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(svg.matches("class=\"line\" stroke=").count(), 4);
    }

    #[test]
    fn a_line_breaks_where_nothing_is_known() {
        let svg = draw("x", &[line("Auto", &[Some(0.5), None, Some(0.5)])]);
        let path = svg
            .lines()
            .find(|l| l.starts_with("<path d=\"M") && l.contains("class=\"line\""));
        assert_eq!(path.unwrap().matches('M').count(), 2);
    }
}
