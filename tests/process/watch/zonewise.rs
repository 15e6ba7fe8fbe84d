//! `zonewise serve` on a scripted API server, and what shows of it from outside.

use serde_json::{Value, json};

use crate::api_server::watches::{ApiServer, Resource};
use crate::binary::{Serve, Setup, apply};
use crate::cluster::review;
use crate::exposition::{Exposition, Sample};
use crate::wait::eventually;

/// The zone that each endpoint is hinted for as stored: what comes back when hints are kept.
pub const STORED: &str = "stored";

/// The process. Calls to it block the thread, which the scripted API server shares: none of them waits for that server.
pub struct Zonewise(Serve);

impl Zonewise {
    /// Starts it and waits until it answers.
    pub async fn start(api: &ApiServer) -> Self {
        Self::start_with(api, &[]).await
    }

    /// Starts it with more flags.
    pub async fn start_with(api: &ApiServer, flags: &[(&str, &str)]) -> Self {
        let setup = flags
            .iter()
            .fold(Setup::on_api_server(api.port()), |setup, (name, value)| {
                setup.flag(name, *value)
            });
        let mut zonewise = Self(setup.spawn());
        eventually("zonewise answers", async || {
            zonewise.assert_runs();
            zonewise.0.try_get("/healthz")
        })
        .await;
        zonewise
    }

    /// Starts it and waits until it is ready and watches.
    pub async fn start_ready(api: &ApiServer) -> Self {
        let mut zonewise = Self::start(api).await;
        zonewise.is_ready().await;
        for resource in Resource::ALL {
            eventually("the watch is open", async || {
                let open = api.open_watches(resource);
                (open == 1)
                    .then_some(())
                    .ok_or_else(|| format!("{open} of {}", resource.word()))
            })
            .await;
        }
        zonewise
    }

    // === What it says of itself ===

    /// Status and text of `/readyz`.
    pub fn readyz(&self) -> (u16, String) {
        let answer = self.0.get("/readyz");
        (answer.status, answer.text().to_owned())
    }

    /// Waits until `/readyz` says 200.
    pub async fn is_ready(&mut self) {
        self.comes_to_readyz(200, "ok\n").await;
    }

    /// Waits until `/readyz` says this.
    pub async fn comes_to_readyz(&mut self, status: u16, text: &str) {
        let wanted = (status, text.to_owned());
        eventually("readiness", async || {
            self.assert_runs();
            is(&self.readyz(), &wanted)
        })
        .await;
    }

    /// Asserts that the process has not exited.
    pub fn assert_runs(&mut self) {
        self.0.assert_runs();
    }

    /// All metrics.
    pub fn metrics(&self) -> Exposition {
        self.0.metrics()
    }

    /// A metric that has one sample with these labels, a whole number.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let metrics = self.metrics();
        let samples = metrics.values(name, labels).len();
        assert_eq!(samples, 1, "samples of {name} with {labels:?}");
        metrics.count(name, labels)
    }

    fn count(&self, name: &str, resource: Resource) -> u64 {
        self.metric(name, &[("resource", resource.word())])
    }

    /// How many lists and watches of a resource failed.
    pub fn errors(&self, resource: Resource) -> u64 {
        self.count("zonewise_watch_errors_total", resource)
    }

    /// How many objects of a resource had fields of unexpected types.
    pub fn unreadable(&self, resource: Resource) -> u64 {
        self.count("zonewise_unreadable_objects_total", resource)
    }

    /// Whether the first list of a resource is complete.
    pub fn synced(&self, resource: Resource) -> bool {
        self.count("zonewise_cache_synced", resource) == 1
    }

    /// When the last event of a resource came, in seconds since 1970; 0 for never.
    pub fn last_event(&self, resource: Resource) -> u64 {
        self.count("zonewise_watch_last_event_timestamp_seconds", resource)
    }

    /// Waits for an event of a resource later than `before`.
    pub async fn comes_to_hear(&self, resource: Resource, before: u64) {
        eventually("an event comes", async || {
            let last = self.last_event(resource);
            (last > before)
                .then_some(())
                .ok_or_else(|| format!("last at {last}"))
        })
        .await;
    }

    /// The share of each zone in hundredths, such as `a 50, b 50`.
    pub fn shares(&self) -> String {
        let metrics = self.metrics();
        let share = |sample: &Sample| {
            let hundredths = sample.value * 100.0;
            format!("{} {hundredths:.0}", sample.labels["zone"])
        };
        let samples = metrics.samples.iter();
        let samples = samples.filter(|sample| sample.name == "zonewise_zone_capacity_ratio");
        samples.map(share).collect::<Vec<_>>().join(", ")
    }

    /// Waits until the shares are these.
    pub async fn comes_to_shares(&self, wanted: &str) {
        eventually("shares", async || is(self.shares().as_str(), wanted)).await;
    }

    /// Waits until a metric with these labels has this value.
    pub async fn comes_to_metric(&self, name: &str, labels: &[(&str, &str)], wanted: u64) {
        eventually(name, async || is(&self.metric(name, labels), &wanted)).await;
    }

    /// Waits until so many nodes are in a state.
    pub async fn comes_to_nodes(&self, state: &str, count: u64) {
        self.comes_to_metric("zonewise_nodes", &[("state", state)], count)
            .await;
    }

    /// Waits until at least so many lists and watches of a resource failed.
    pub async fn comes_to_errors(&self, resource: Resource, least: u64) {
        eventually("errors are counted", async || {
            let is = self.errors(resource);
            (is >= least)
                .then_some(())
                .ok_or_else(|| format!("{is} {} of {least}", resource.word()))
        })
        .await;
    }

    /// Its log as text.
    pub fn raw_log(&self) -> String {
        self.0.log_text()
    }

    /// The lines of the log with these fields.
    pub fn log_with(&self, fields: &[(&str, &str)]) -> Vec<Value> {
        let mut lines = self.0.log();
        lines.retain(|line| fields.iter().all(|(field, text)| line[*field] == **text));
        lines
    }

    /// The errors of a resource that its log reports.
    pub fn told_errors(&self, resource: Resource) -> Vec<String> {
        let message = "watch failed; trying again, with what is known so far";
        let fields = [("message", message), ("resource", resource.word())];
        let mut lines = self.log_with(&fields);
        lines.retain(|line| line["level"] == "WARN");
        let error = |line: &Value| line["error"].as_str().unwrap_or_default().to_owned();
        lines.iter().map(error).collect()
    }

    // === What it answers ===

    /// What it decides on a slice that comes without hints and is stored with `STORED` on each endpoint: decision,
    /// reason, and the hint of each endpoint after the patch, such as `Hints: a b c` or `Kept NotSynced: stored stored`.
    pub fn ask(&self, slice: &Value) -> String {
        let before = self.admissions();
        let answer = self.0.ask(&review("UPDATE", slice, Some(&stored(slice))));
        let written = apply(&answer, slice);
        let after = self.admissions();
        let risen = after.iter().find(|sample| !before.contains(sample));
        let labels = &risen.expect("the review is counted").labels;
        let decided = format!("{} {}", labels["decision"], labels["reason"]);
        let hints = hints(&written.stored);
        format!("{}: {hints}", decided.trim_end())
            .trim_end()
            .to_owned()
    }

    /// Waits until [`Self::ask`] says this.
    pub async fn comes_to_answer(&self, slice: &Value, wanted: &str) {
        eventually("an answer", async || is(self.ask(slice).as_str(), wanted)).await;
    }

    fn admissions(&self) -> Vec<Sample> {
        let mut samples = self.metrics().samples;
        samples.retain(|sample| sample.name == "zonewise_admission_requests_total");
        samples
    }
}

fn is<T: PartialEq + std::fmt::Debug + ?Sized>(is: &T, wanted: &T) -> Result<(), String> {
    if is == wanted {
        Ok(())
    } else {
        Err(format!("{is:?} is not {wanted:?}"))
    }
}

/// The slice with the zone `STORED` as hint of each endpoint.
fn stored(slice: &Value) -> Value {
    let mut stored = slice.clone();
    for endpoint in stored["endpoints"].as_array_mut().into_iter().flatten() {
        endpoint["hints"] = json!({"forZones": [{"name": STORED}]});
    }
    stored
}

/// The zones that endpoints are hinted for; `-` for none.
fn hints(slice: &Value) -> String {
    let hint = |endpoint: &Value| {
        let zone = endpoint["hints"]["forZones"][0]["name"].as_str();
        zone.unwrap_or("-").to_owned()
    };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.map(hint).collect::<Vec<_>>().join(" ")
}
