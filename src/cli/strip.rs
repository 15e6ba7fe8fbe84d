//! `zonewise strip`.

mod choice;
mod write;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use self::choice::{Asking, Candidate, Choice, Scope};
use self::write::Written;
use super::api::{Api, Refusal};
use super::connect::ClusterArgs;
use super::decisions::OptInArgs;
use super::{Failure, values};
use crate::words;

/// Take away the hints of Services that asked zonewise for them
///
/// For when zonewise is off or uninstalled: hints that are stored stay in force until somebody writes the slice.
///
/// Nothing in a slice says who gave its hints. A slice loses all of them if its Service asks zonewise for hints, by
/// annotation or by trafficDistribution, as zonewise explain shows it, at the moment at which the slice is written. What
/// Kubernetes itself would write again stays: where a trafficDistribution alone asks, its own EndpointSlice controller
/// manages the slice, and each ready endpoint is hinted for its own zone. Services that name another implementation, opt
/// out, or ask for nothing are never touched. Where the annotation says Auto, Kubernetes' own controller, which acts on
/// it too, may have given the hints, and may then write them again.
///
/// So leave out with -n or -l what zonewise never hinted: namespaces and slices that the selectors of its webhook left
/// out, and all of them if it only ever observed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zonewise strip -A --dry-run
  zonewise strip -n shop web api
  zonewise strip -A -l team=shop
  zonewise strip -A --yes --pace 10

Set mode: Off first, or uninstall zonewise: a webhook that is still Active would put the hints back, and strip refuses.

Exit status:
  0  no slice is left that has such hints; with --dry-run, whatever there is
  1  it was refused, stopped, or some slices could not be stripped
  2  the arguments are wrong, there is no such Service, there is nobody to ask, or the cluster can't be read

docs/strip.md has the rule in full and the permissions.")]
pub struct Args {
    /// Only the slices of the Services of these names
    names: Vec<String>,
    /// Only Services of this namespace; by default that of the kubeconfig's context
    #[arg(short, long, env = "ZONEWISE_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only slices with these labels, as kubectl writes them: those that the webhook's objectSelector took
    #[arg(short = 'l', long, env = "ZONEWISE_SELECTOR", value_name = "SELECTOR")]
    selector: Option<String>,
    /// Services of all namespaces
    #[arg(short = 'A', long, env = "ZONEWISE_ALL_NAMESPACES", value_parser = BoolishValueParser::new())]
    all_namespaces: bool,
    /// Show what would be stripped, by dry runs of the API server, and change nothing
    #[arg(long, env = "ZONEWISE_DRY_RUN", value_parser = BoolishValueParser::new())]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long, env = "ZONEWISE_YES", value_parser = BoolishValueParser::new())]
    yes: bool,
    /// Slices a second; each write reaches the kube-proxy of every node
    #[arg(long, env = "ZONEWISE_PACE", default_value = "50", value_parser = values::pace, value_name = "NUMBER")]
    pace: f64,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    opt_in: OptInArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if !args.dry_run && !args.yes && !can_ask() {
        return Err(Failure::usage(
            "there is no terminal to ask on: give --yes to strip without being asked, or --dry-run to see what would be \
             stripped",
        ));
    }
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::failed)?;
    runtime.block_on(strip(args))
}

fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

async fn strip(args: &Args) -> Result<(), Failure> {
    let connected = args.cluster.connect().await?;
    let api = Api::new(connected.client.clone());
    let namespace = args.namespace.clone().unwrap_or(connected.namespace);
    let scope = Scope {
        namespace: Some(namespace).filter(|_| !args.all_namespaces),
        names: args.names.clone(),
        selector: args.selector.clone(),
    };
    let unreadable = |refusal: Refusal| unreadable(&refusal, &scope);
    let services = Asking::list(&api, &scope, args.opt_in.settings());
    let services = services.await.map_err(unreadable)?;
    refuse_unknown(&scope, &services)?;
    let choice = Choice::list(&api, &scope, &services);
    let choice = choice.await.map_err(unreadable)?;
    if choice.candidates.is_empty() {
        return say(&format!(
            "no slice has hints that zonewise may have given{}",
            left(&choice)
        ));
    }
    refuse_if_put_back(&api, &services, &choice).await?;
    if !args.dry_run && !args.yes {
        ask(&choice, args.pace)?;
    }
    // Not before: Ctrl-C ends the question too.
    let mut signals = Signals::new().map_err(Failure::failed)?;
    Work::new(args, &api, &services, &choice)
        .run(&mut signals)
        .await
}

fn unreadable(refusal: &Refusal, scope: &Scope) -> Failure {
    let Refusal::Forbidden(_) = refusal else {
        return Failure::usage(format!("the cluster can't be read: {refusal}"));
    };
    let place = scope.namespace.as_ref();
    let place = place.map_or("every namespace".to_owned(), |n| format!("namespace {n}"));
    Failure::usage(format!(
        "the cluster can't be read: {refusal}; strip needs permission to list and get services, and to list and patch \
         endpointslices, in {place}"
    ))
}

fn refuse_unknown(scope: &Scope, services: &Asking) -> Result<(), Failure> {
    let unknown: Vec<&String> = scope
        .names
        .iter()
        .filter(|name| !services.knows(name))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let place = scope.namespace.as_ref();
    let place = place.map_or("any namespace".to_owned(), |n| format!("namespace {n}"));
    Err(Failure::usage(format!(
        "there is no Service {} in {place}",
        words::first(&unknown)
    )))
}

/// What is left alone, where anything is.
fn left(choice: &Choice) -> String {
    match choice.kubernetes {
        0 => String::new(),
        slices => format!(
            "; {} left as Kubernetes itself writes them",
            words::count(slices, "slice")
        ),
    }
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{text}").or_else(super::ignore_closed_pipe)
}

/// How many dry runs are made, at the most, to see one go through.
const TRIALS: usize = 10;

/// Sees by dry runs whether hints would come back at once. A slice that can't be stripped holds up no other.
async fn refuse_if_put_back(api: &Api, services: &Asking, choice: &Choice) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for candidate in choice.candidates.iter().take(TRIALS) {
        match write::strip(api, services, candidate, true).await {
            Ok(Written::Nothing) => {}
            Ok(Written::Stripped(_)) => return Ok(()),
            Ok(Written::CameBack) => return Err(Failure::failed(put_back(&candidate.full_name()))),
            Err(why) => failed.push(format!("{}: {why}", candidate.full_name())),
        }
    }
    if failed.len() == choice.candidates.len() {
        let problem = failed.join("; ");
        return Err(Failure::failed(format!(
            "no slice can be stripped, as dry runs show: {problem}"
        )));
    }
    Ok(())
}

fn put_back(slice: &str) -> String {
    format!(
        "the hints of {slice} come back as it is written: most likely the API server still asks a zonewise that is Active; \
         set mode: Off first (helm upgrade … --reuse-values --set mode=Off, or --mode Off) and wait until its pods have \
         restarted, or delete the webhook configuration"
    )
}

/// Asks on the terminal whether to go on.
fn ask(choice: &Choice, pace: f64) -> Result<(), Failure> {
    let count = choice.candidates.len();
    let names: Vec<String> = choice.candidates.iter().map(Candidate::full_name).collect();
    #[expect(clippy::cast_precision_loss)]
    let seconds = (count as f64 / pace).ceil();
    anstream::eprint!(
        "Strip {} of all hints, in about {seconds} s: {}{}?\n\
         Their Services ask zonewise for hints; nothing in a slice says who gave them. [y/N] ",
        words::count(count, "slice"),
        words::first(&names),
        left(choice)
    );
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(Failure::failed)?;
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") {
        Ok(())
    } else {
        Err(Failure::failed("nothing was changed"))
    }
}

/// Ctrl-C and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The slices one after the other.
struct Work<'a> {
    api: &'a Api,
    services: &'a Asking,
    choice: &'a Choice,
    dry_run: bool,
    pause: Duration,
    bar: ProgressBar,
    done: usize,
    /// Slices that had nothing to lose any more when their turn came.
    needless: usize,
    /// Sentences about those that could not be stripped.
    failed: Vec<String>,
}

impl<'a> Work<'a> {
    fn new(args: &Args, api: &'a Api, services: &'a Asking, choice: &'a Choice) -> Self {
        Self {
            api,
            services,
            choice,
            dry_run: args.dry_run,
            pause: Duration::from_secs_f64(1.0 / args.pace),
            bar: progress(choice.candidates.len()),
            done: 0,
            needless: 0,
            failed: Vec::new(),
        }
    }

    async fn run(mut self, signals: &mut Signals) -> Result<(), Failure> {
        let mut ticks = interval(self.pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let choice = self.choice;
        for candidate in &choice.candidates {
            tokio::select! {
                biased;
                () = signals.wait() => return Err(self.stopped()),
                _ = ticks.tick() => {}
            }
            let written = write::strip(self.api, self.services, candidate, self.dry_run).await;
            self.note(&candidate.full_name(), written)?;
        }
        self.finish()
    }

    fn note(&mut self, name: &str, written: Result<Written, String>) -> Result<(), Failure> {
        self.bar.inc(1);
        match written {
            Ok(Written::Stripped(hints)) => {
                self.done += 1;
                let verb = if self.dry_run { "would lose" } else { "lost" };
                let hints = words::count(hints, "hint");
                self.bar.suspend(|| say(&format!("{name} {verb} {hints}")))
            }
            Ok(Written::Nothing) => {
                self.needless += 1;
                Ok(())
            }
            Ok(Written::CameBack) => {
                self.tell_failed();
                let (why, progress) = (put_back(name), self.progress());
                Err(Failure::failed(format!("stopped, {progress}: {why}")))
            }
            Err(why) => {
                self.failed.push(format!("{name}: {why}"));
                Ok(())
            }
        }
    }

    /// How far it came.
    fn progress(&self) -> String {
        let (done, failed) = (self.done + self.needless, self.failed.len());
        let left = self.choice.candidates.len() - done - failed;
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let done = words::count(done, "slice");
        format!("{done} done{failed}, {left} left")
    }

    fn tell_failed(&self) {
        self.bar.finish_and_clear();
        for problem in &self.failed {
            anstream::eprintln!("not stripped: {problem}");
        }
    }

    fn stopped(&self) -> Failure {
        self.tell_failed();
        Failure::failed(format!(
            "stopped: {}; run it again to go on",
            self.progress()
        ))
    }

    fn finish(self) -> Result<(), Failure> {
        self.tell_failed();
        let verb = if self.dry_run {
            "would be stripped"
        } else {
            "stripped"
        };
        let slices = words::count(self.done, "slice");
        let needless = match self.needless {
            0 => String::new(),
            slices => format!(
                "; {} had nothing to lose any more",
                words::count(slices, "slice")
            ),
        };
        say(&format!("{slices} {verb}{needless}{}", left(self.choice)))?;
        match self.failed.len() {
            0 => Ok(()),
            failed => Err(Failure::failed(format!(
                "{} could not be stripped; run it again when what is told above is mended",
                words::count(failed, "slice")
            ))),
        }
    }
}

/// On standard error, and only where that is a terminal.
fn progress(slices: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} slices, {eta} left")
        .expect("the template is sound");
    ProgressBar::new(slices as u64).with_style(style)
}
