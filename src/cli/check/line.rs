//! What a check tells: one line for each thing that was looked at.

use std::io::{self, Write};

use anstyle::Style;
use serde::{Serialize, Serializer};

use crate::cli::api::Refusal;
use crate::cli::render;
use crate::telemetry::VERSION;
use crate::words;

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// zonewise works, and something keeps it from being of use, or may soon; or it could not be looked at.
    Warning,
    /// zonewise does not work, or endangers writes.
    Failure,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Ok => render::GREEN,
            Self::Warning => render::YELLOW,
            Self::Failure => render::RED,
        }
    }
}

macro_rules! things {
    ($($(#[$doc:meta])* $thing:ident $word:literal,)*) => {
        /// What is looked at.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Thing {
            $($(#[$doc])* $thing,)*
        }

        impl Thing {
            /// Its word in JSON, and in the anchor of its section in the documentation.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$thing => $word,)*
                }
            }
        }
    };
}

things!(
    /// Whether the API server answers, and its version.
    ApiServer "api-server",
    /// Whether the webhook configuration is there.
    Configuration "webhook-configuration",
    /// What the API server asks about.
    Rules "webhook-rules",
    /// What a dead or slow webhook costs.
    FailurePolicy "failure-policy",
    /// What selectors and conditions leave out.
    Scope "webhook-scope",
    /// Where the API server calls.
    Service "webhook-service",
    /// Whom it trusts there.
    CaBundle "ca-bundle",
    /// What is shown there.
    ServedCertificate "served-certificate",
    /// Whether a write reaches zonewise.
    Probe "probe",
    /// zonewise's validating webhooks.
    Validating "validating-webhook",
    /// Other mutating webhooks on slices.
    OtherWebhooks "other-webhooks",
    /// Nodes and what they lack.
    Nodes "nodes",
    /// Services that ask for hints.
    Services "services",
    /// Slices that differ from a fresh decision.
    Drift "drift",
    /// Versions that matter to hints.
    Versions "versions",
    /// What follows hints, or does not.
    DataPlane "data-plane",
    /// Who leads.
    Lease "lease",
);

impl Serialize for Thing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// What is told of one thing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// What was looked at.
    #[serde(rename = "name")]
    pub thing: Thing,
    /// How it is.
    pub status: Status,
    /// The same in a sentence.
    pub message: String,
    /// What to do, unless all is well.
    pub advice: Option<String>,
    /// Where the documentation says more.
    pub docs: String,
}

impl Line {
    fn new(thing: Thing, status: Status, message: String, advice: Option<String>) -> Self {
        Self {
            thing,
            status,
            message,
            advice,
            docs: format!("docs/troubleshooting.md#check-{}", thing.word()),
        }
    }

    pub fn ok(thing: Thing, message: impl Into<String>) -> Self {
        Self::new(thing, Status::Ok, message.into(), None)
    }

    pub fn warning(thing: Thing, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(thing, Status::Warning, message.into(), Some(advice.into()))
    }

    pub fn failure(thing: Thing, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(thing, Status::Failure, message.into(), Some(advice.into()))
    }

    /// The same told of another thing, of which there may be several.
    pub fn of(self, thing: Thing, which: &str) -> Self {
        let message = format!("{which}: {}", self.message);
        Self::new(thing, self.status, message, self.advice)
    }

    /// That a thing could not be looked at; `needs` is the permission that it takes.
    pub fn not_looked_at(thing: Thing, refusal: &Refusal, needs: &str) -> Self {
        match refusal {
            Refusal::Forbidden(_) => Self::warning(
                thing,
                format!("not looked at: needs permission to {needs}"),
                "give that permission to who runs the check (docs/check.md#permissions), or run it as somebody who has it",
            ),
            refusal => Self::warning(
                thing,
                format!("not looked at: {refusal}"),
                "see that the API server is well, and run the check again",
            ),
        }
    }
}

/// All that was looked at.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    schema_version: u32,
    version: &'static str,
    /// The worst of the lines.
    status: Status,
    checks: Vec<Line>,
}

impl Report {
    pub fn new(checks: Vec<Line>) -> Self {
        let worst = checks.iter().map(|line| line.status).max();
        Self {
            schema_version: 1,
            version: VERSION,
            status: worst.unwrap_or(Status::Ok),
            checks,
        }
    }

    /// How many lines have this status.
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|l| l.status == status).count()
    }

    /// For people.
    pub fn table(&self, out: &mut impl Write) -> io::Result<()> {
        for line in &self.checks {
            let (style, word) = (line.status.style(), line.status.word());
            writeln!(
                out,
                "{style}{word:7}{style:#}  {bold}{}{bold:#}",
                line.thing.word(),
                bold = render::BOLD
            )?;
            render::paragraph(out, render::PLAIN, (INDENT, INDENT), &line.message)?;
            if let Some(advice) = &line.advice {
                render::paragraph(out, render::CYAN, (ARROW, BEHIND_ARROW), advice)?;
                render::paragraph(out, render::DIM, (BEHIND_ARROW, BEHIND_ARROW), &line.docs)?;
            }
        }
        let (ok, warnings, failures) = (
            self.count(Status::Ok),
            words::count(self.count(Status::Warning), "warning"),
            words::count(self.count(Status::Failure), "failure"),
        );
        writeln!(out, "\n{ok} ok, {warnings}, {failures}")
    }
}

const INDENT: &str = "         ";
const ARROW: &str = "         → ";
const BEHIND_ARROW: &str = "           ";
