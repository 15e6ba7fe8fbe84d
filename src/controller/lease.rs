//! Which replica leads.
//!
//! A `coordination.k8s.io/v1` Lease names the leader. A [`Candidate`] campaigns for it, and a [`Claim`] tells the rest of
//! the process, by the monotonic clock of this machine alone, whether it leads. No two claims hold at once, as long as
//! only candidates write the Lease:
//!
//! - A claim lasts for [`LeaseSettings`]' `claim` from the moment *before* the write that won it was sent, and dies by
//!   itself. A leader that is cut off stops, with nobody to tell it.
//! - Another's Lease is taken only once this process has itself seen it unchanged for `lease` (more than `claim`), or
//!   for as long as it says if that is more. Times that it holds are never read: clocks of two machines don't compare.
//! - A write names the version that it replaces, so of two that want the Lease one fails (409).
//! - A Lease that isn't there says nothing about who leads: it may have been deleted a moment ago. Whoever makes it
//!   anew holds it for a whole `lease` before leading, by when every older claim is over; only a leader whose claim still
//!   holds goes on at once. This is why the very first leader of an installation takes a while.
//! - A Lease that [`Candidate::release`] gave up, with an annotation that says so, no holder and a duration of one second,
//!   may be taken at once.
//!
//! Time for which a machine is suspended does not count for its monotonic clock: a claim may hold then for a moment
//! after it wakes, until the first answer of the API server.
//!
//! It needs this Role, in the namespace of the Lease; `create` can't be bound to a name:
//!
//! ```yaml
//! rules:
//! - apiGroups: [coordination.k8s.io]
//!   resources: [leases]
//!   verbs: [create]
//! - apiGroups: [coordination.k8s.io]
//!   resources: [leases]
//!   resourceNames: [zonewise]
//!   verbs: [get, update]
//! ```
//!
//! With an [owner](LeaseSettings::with_owner), what [`owner`] needs too.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as LeaseKind;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::owner::{self, Owner};
use crate::telemetry::Human;
use crate::words::{for_a_line, with_causes};

/// No lease is longer: neither by settings nor because the Lease says so, since nobody would lead for as long.
pub const LONGEST_LEASE: Duration = Duration::from_mins(10);

const LEASE: Duration = Duration::from_secs(15);
const CLAIM: Duration = Duration::from_secs(10);

/// How long a write that a [`Claim`] allows may take at the most.
pub const WRITE_TIME: Duration = Duration::from_secs(4);

// What a claim allowed at its end is over before anybody else leads.
const _: () = assert!(CLAIM.as_secs() + WRITE_TIME.as_secs() < LEASE.as_secs());

/// Which Lease, who wants it, and for how long.
#[derive(Debug, Clone)]
pub struct LeaseSettings {
    namespace: String,
    name: String,
    identity: String,
    lease: Duration,
    claim: Duration,
    retry: Duration,
    owner: Option<Owner>,
}

/// Times that don't go together.
#[derive(Debug, thiserror::Error)]
#[error(
    "a lease of {lease}, a claim of {claim} and a try each {retry} don't go together: the lease must be longer than the \
     claim and at most {longest}, and the claim at least twice the time between tries",
    longest = Human(LONGEST_LEASE)
)]
pub struct BadTimes {
    lease: Human,
    claim: Human,
    retry: Human,
}

impl LeaseSettings {
    /// The Lease `namespace/name` for a replica that is best known by the name of its pod. The lease lasts 15 s, a claim
    /// 10 s, and a try is made each 2 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, replica: &str) -> Self {
        // A pod keeps its name when its container starts anew, and two replicas may be given one name by mistake.
        let process = RandomState::new().hash_one(replica);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{replica}_{process:016x}"),
            lease: LEASE,
            claim: CLAIM,
            retry: Duration::from_secs(2),
            owner: None,
        }
    }

    /// The same with an owner, which goes onto the Lease as soon as it is known.
    #[must_use]
    pub fn with_owner(self, owner: Owner) -> Self {
        Self {
            owner: Some(owner),
            ..self
        }
    }

    /// The same with other times: of the lease, of a claim, and between two tries. A write that the claim allows must take
    /// less than the lease is longer than the claim.
    ///
    /// # Errors
    /// [`BadTimes`] unless 0 < 2 × `retry` ≤ `claim` < `lease` ≤ [`LONGEST_LEASE`].
    pub fn with_times(
        self,
        lease: Duration,
        claim: Duration,
        retry: Duration,
    ) -> Result<Self, BadTimes> {
        let go_together =
            !retry.is_zero() && retry <= claim / 2 && claim < lease && lease <= LONGEST_LEASE;
        if !go_together {
            return Err(BadTimes {
                lease: Human(lease),
                claim: Human(claim),
                retry: Human(retry),
            });
        }
        Ok(Self {
            lease,
            claim,
            retry,
            ..self
        })
    }

    /// What the Lease names this process: its replica and a number of its own.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// How long a call may take, so that a claim has time for a second one.
    fn call_time(&self) -> Duration {
        self.claim * 2 / 5
    }

    /// The lease in whole seconds, which is how a Lease holds it: never less than it is.
    fn lease_seconds(&self) -> u64 {
        self.lease.as_secs() + u64::from(self.lease.subsec_nanos() > 0)
    }
}

/// A client for the Lease alone. It shares no connection and no queue with the other clients of the process, so that
/// whatever these send holds up no renewal.
///
/// # Errors
/// As kube's, for a configuration that no client can be made of.
pub fn client(mut config: kube::Config, settings: &LeaseSettings) -> kube::Result<Client> {
    // Each call has a time limit here, but a connection that a given-up call began would go on by itself.
    config.connect_timeout = Some(settings.call_time());
    config.read_timeout = Some(settings.claim);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    Client::try_from(config)
}

/// Whether this process leads. Cheap to ask; clones tell the same.
#[derive(Debug, Clone)]
pub struct Claim {
    standing: watch::Receiver<Standing>,
    writes: TaskTracker,
    /// The term that [`Self::changed`] last woke for.
    told: Option<u64>,
}

/// A write that a claim allowed. It is kept until the write has ended: a lease is not given up before.
#[derive(Debug)]
#[must_use]
pub struct Write {
    _under_way: TaskTrackerToken,
}

impl Claim {
    /// Whether it leads at this moment: 1 or 0 of `zonewise_leader`.
    pub fn holds(&self) -> bool {
        self.term().is_some()
    }

    /// A write that may begin now and take [`WRITE_TIME`], if it leads.
    pub fn write(&self) -> Option<Write> {
        // Before the claim is looked at: whoever ends it then waits for this.
        let write = Write {
            _under_way: self.writes.token(),
        };
        self.holds().then_some(write)
    }

    /// Whether this term began with a Lease that had to be made: as far as can be known, nobody ever led before.
    pub fn is_first_ever(&self) -> bool {
        self.standing.borrow().made_lease
    }

    /// Which time this is that it leads: another number each time leadership is gained anew.
    pub fn term(&self) -> Option<u64> {
        self.standing.borrow().term_at(Instant::now())
    }

    /// Waits until the term is another than when this last returned: until leadership is gained, lost, or lost and gained
    /// anew. The first time it returns at once if this process leads. Loses nothing when it is dropped, as by `select!`.
    pub async fn changed(&mut self) {
        let mut candidate_is_there = true;
        loop {
            let standing = *self.standing.borrow_and_update();
            let term = standing.term_at(Instant::now());
            if term != self.told {
                self.told = term;
                return;
            }
            let lapse = term.and(standing.until);
            tokio::select! {
                changed = self.standing.changed(), if candidate_is_there => candidate_is_there = changed.is_ok(),
                () = sleep_until_or_never(lapse) => {}
            }
        }
    }
}

async fn sleep_until_or_never(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// What claims read.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    /// How many times leadership was gained so far.
    terms: u64,
    /// When the last claim ends; nothing if leadership was laid down.
    until: Option<Instant>,
    /// Whether the last term began with a Lease that had to be made.
    made_lease: bool,
    /// Whether it is out of the running for good.
    resigned: bool,
}

impl Standing {
    fn term_at(&self, moment: Instant) -> Option<u64> {
        let holds = self.until.is_some_and(|until| moment < until);
        holds.then_some(self.terms)
    }
}

/// Somebody who would lead. Clones are the same candidate.
#[derive(Clone)]
pub struct Candidate {
    api: Api<DynamicObject>,
    settings: Arc<LeaseSettings>,
    standing: watch::Sender<Standing>,
    writes: TaskTracker,
}

impl Candidate {
    /// One that does not campaign yet. The client should be of [`client`].
    #[must_use]
    pub fn new(client: Client, settings: LeaseSettings) -> Self {
        Self {
            api: Api::namespaced_with(client, &settings.namespace, &resource()),
            settings: Arc::new(settings),
            standing: watch::Sender::default(),
            writes: TaskTracker::new(),
        }
    }

    /// Tells whether this candidate leads.
    #[must_use]
    pub fn claim(&self) -> Claim {
        Claim {
            standing: self.standing.subscribe(),
            writes: self.writes.clone(),
            told: None,
        }
    }

    /// Gains the lease and keeps it, again and again. Never ends; after [`Self::release`] it does nothing.
    pub async fn campaign(self) {
        let mut standing = self.standing.subscribe();
        tokio::select! {
            biased;
            _ = standing.wait_for(|standing| standing.resigned) => {}
            () = self.tell_lapses() => {}
            () = Campaign::of(&self).run() => {}
        }
        std::future::pending::<()>().await;
    }

    /// Stops campaigning and, if this process led, gives the lease up for another to take at once; for the end of the
    /// process. Claims end first, then the writes that they allowed are waited for. Takes no longer than [`WRITE_TIME`]
    /// and a call may take.
    pub async fn release(&self) {
        if !self.resign() {
            return;
        }
        self.writes.close();
        if timeout(WRITE_TIME, self.writes.wait()).await.is_err() {
            tracing::debug!("a write has not ended in its time");
        }
        let limit = self.settings.call_time();
        let given_up = timeout(limit, self.give_up()).await;
        match given_up.unwrap_or_else(|_| Err(Failure::silence("give up", limit))) {
            Ok(()) => self.tell("no longer leading: the lease is given up"),
            Err(failure) => self.warn(
                "no longer leading, but the lease could not be given up: others wait until it runs out",
                &failure.problem(&self.settings),
            ),
        }
    }

    /// Whether it led.
    fn resign(&self) -> bool {
        let mut led = false;
        self.standing.send_modify(|standing| {
            led = standing.term_at(Instant::now()).is_some();
            standing.until = None;
            standing.resigned = true;
        });
        led
    }

    async fn give_up(&self) -> Result<(), Failure> {
        match self.give_up_once().await {
            // A renewal that was on its way.
            Err(Failure::Conflict) => self.give_up_once().await,
            result => result,
        }
    }

    async fn give_up_once(&self) -> Result<(), Failure> {
        let lease = match self.get().await {
            Ok(lease) if lease.holder() == self.settings.identity => lease,
            Ok(_) | Err(Failure::Absent) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        self.put(&lease.released()).await.map(drop)
    }

    /// Extends the claim, or begins a new one. Whether leadership was gained by that.
    fn claim_until(&self, until: Instant, answered: Instant, made_lease: bool) -> bool {
        let mut gained = false;
        self.standing.send_if_modified(|standing| {
            let extends = !standing.resigned && answered < until;
            if extends {
                gained = standing.term_at(answered).is_none();
                standing.terms += u64::from(gained);
                if gained {
                    standing.made_lease = made_lease;
                }
                standing.until = Some(until);
            }
            extends
        });
        gained
    }

    fn leads_at(&self, moment: Instant) -> bool {
        self.standing.borrow().term_at(moment).is_some()
    }

    fn step_down_for(&self, holder: &str) {
        let mut led = false;
        self.standing.send_if_modified(|standing| {
            led = standing.term_at(Instant::now()).is_some();
            standing.until.take().is_some()
        });
        if led {
            let why = format!("{} has taken the lease", for_a_line(holder));
            self.warn("no longer leading", &why);
        }
    }

    /// Tells of claims that run out with nobody having ended them.
    async fn tell_lapses(&self) {
        let mut claim = self.claim();
        loop {
            claim.changed().await;
            let standing = *self.standing.borrow();
            if standing.until.is_some() && standing.term_at(Instant::now()).is_none() {
                let why = format!(
                    "the lease could not be renewed for {}",
                    Human(self.settings.claim)
                );
                self.warn("no longer leading", &why);
            }
        }
    }

    fn tell(&self, message: &str) {
        tracing::info!(lease = %self.full_name(), identity = %self.settings.identity, "{message}");
    }

    fn warn(&self, message: &str, why: &str) {
        tracing::warn!(lease = %self.full_name(), identity = %self.settings.identity, why, "{message}");
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    // === Calls ===

    async fn get(&self) -> Result<Lease, Failure> {
        let lease = self
            .within_time("get", self.api.get(&self.settings.name))
            .await?;
        match lease.0.metadata.resource_version {
            Some(_) => Ok(lease),
            None => Err(Failure::answer("get", "it has no resourceVersion")),
        }
    }

    /// Replaces the version that the Lease names; as it is then.
    async fn put(&self, lease: &Lease) -> Result<Lease, Failure> {
        let (name, parameters) = (&self.settings.name, PostParams::default());
        let put = self.api.replace(name, &parameters, &lease.0);
        let stored = self.within_time("update", put).await?;
        if stored.0.metadata.uid == lease.0.metadata.uid {
            stored.checked("update", lease.holder())
        } else {
            // A PUT makes a Lease that is not there.
            Err(Failure::Conflict)
        }
    }

    async fn post(&self, lease: &Lease) -> Result<Lease, Failure> {
        let parameters = PostParams::default();
        let post = self.api.create(&parameters, &lease.0);
        let stored = self.within_time("create", post).await;
        if let Some(owner) = &self.settings.owner {
            owner.ask_again();
        }
        match stored {
            Err(Failure::Absent) => Err(Failure::no_namespace()),
            stored => stored?.checked("create", lease.holder()),
        }
    }

    async fn within_time(
        &self,
        verb: &'static str,
        call: impl Future<Output = kube::Result<DynamicObject>>,
    ) -> Result<Lease, Failure> {
        let limit = self.settings.call_time();
        let answer = timeout(limit, call).await;
        let answer = answer.map_err(|_| Failure::silence(verb, limit))?;
        answer.map(Lease).map_err(|error| Failure::of(verb, &error))
    }
}

/// What a candidate remembers from one round to the next.
struct Campaign<'a> {
    candidate: &'a Candidate,
    held: Option<Held>,
    seen: Option<Seen>,
    spell: Spell,
}

/// The Lease as this process wrote it last.
struct Held {
    lease: Lease,
    /// A renewal that was sent at this moment or later leads.
    leads_from: Instant,
    /// How the next term comes about, for the log.
    how: String,
    /// Whether the next term begins with a Lease that had to be made.
    made: bool,
}

/// The Lease as it was last seen, or that it was not there, and since when it has been so.
struct Seen {
    lease: Option<Lease>,
    since: Instant,
}

impl<'a> Campaign<'a> {
    fn of(candidate: &'a Candidate) -> Self {
        Self {
            candidate,
            held: None,
            seen: None,
            spell: Spell::default(),
        }
    }

    async fn run(mut self) {
        loop {
            let began = Instant::now();
            let result = self.round().await;
            let went_well = result.is_ok();
            self.spell.tell(self.candidate, result);
            sleep(self.pause(began.elapsed(), went_well)).await;
        }
    }

    async fn round(&mut self) -> Result<(), Failure> {
        if self.renew().await? {
            return Ok(());
        }
        let seen = self.look().await?;
        let result = if self.may_take(&seen) {
            self.take(&seen).await
        } else {
            Ok(())
        };
        self.seen = self.held.is_none().then_some(seen);
        match result {
            // Somebody else was faster.
            Err(Failure::Conflict | Failure::Absent) => Ok(()),
            result => result,
        }
    }

    /// Renews what is held. Nothing is held, any more, if that isn't how the Lease stands.
    async fn renew(&mut self) -> Result<bool, Failure> {
        let Some(held) = &mut self.held else {
            return Ok(false);
        };
        let sent = Instant::now();
        let renewed = held.lease.renewed(&self.candidate.settings);
        match self.candidate.put(&renewed).await {
            Ok(lease) => {
                held.lease = lease;
                held.lead(self.candidate, sent, Instant::now());
                Ok(true)
            }
            Err(Failure::Conflict | Failure::Absent) => {
                self.held = None;
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// How the Lease stands. Lays leadership down before another.
    async fn look(&mut self) -> Result<Seen, Failure> {
        let lease = match self.candidate.get().await {
            Ok(lease) => Some(lease),
            Err(Failure::Absent) => None,
            Err(failure) => return Err(failure),
        };
        if let Some(holder) = lease.as_ref().map(Lease::holder)
            && !self.may_be_ours(holder)
        {
            self.candidate.step_down_for(holder);
        }
        let since = self.seen.take().filter(|seen| seen.shows(lease.as_ref()));
        let since = since.map_or_else(Instant::now, |seen| seen.since);
        Ok(Seen { lease, since })
    }

    fn may_be_ours(&self, holder: &str) -> bool {
        holder.is_empty() || holder == self.candidate.settings.identity
    }

    fn may_take(&self, seen: &Seen) -> bool {
        // Whoever else may be named would have ended the claim.
        let now = Instant::now();
        self.candidate.leads_at(now) || seen.is_free_at(now, &self.candidate.settings)
    }

    async fn take(&mut self, seen: &Seen) -> Result<(), Failure> {
        let Candidate { settings, .. } = self.candidate;
        let sent = Instant::now();
        let free = seen.is_free_at(sent, settings);
        let (lease, how) = match &seen.lease {
            None => {
                let made = Lease::new(settings);
                (self.candidate.post(&made).await?, "made the lease".into())
            }
            Some(lease) => (
                self.candidate.put(&lease.taken(settings)).await?,
                lease.how_it_came_free(settings),
            ),
        };
        let answered = Instant::now();
        let nobody_else_leads = (free && seen.lease.is_some()) || self.candidate.leads_at(answered);
        let leads_from = if nobody_else_leads {
            sent
        } else {
            let wait = Human(settings.lease);
            self.candidate.tell(&format!(
                "{how}: leading in {wait}, when older claims are over"
            ));
            answered + settings.lease
        };
        let mut held = Held {
            lease,
            leads_from,
            how,
            made: seen.lease.is_none(),
        };
        held.lead(self.candidate, sent, answered);
        self.held = Some(held);
        Ok(())
    }

    /// Until the next round. Random, so that candidates that were turned away together do not come back together.
    fn pause(&self, took: Duration, went_well: bool) -> Duration {
        let LeaseSettings { retry, .. } = *self.candidate.settings;
        let wait = match (&self.held, &self.seen) {
            (Some(held), _) => held.leads_from.checked_duration_since(Instant::now()),
            (None, Some(seen)) if went_well => Some(seen.free_in(&self.candidate.settings)),
            _ => None,
        };
        let pause = wait.map_or(retry, |wait| wait.min(retry));
        let pause = pause.saturating_sub(took).max(retry / 4);
        let random = RandomState::new().hash_one(()).to_le_bytes()[0];
        pause * 7 / 8 + pause / 4 * random.into() / 256
    }
}

impl Held {
    /// Leads by a write that was sent and answered then, if its time has come.
    fn lead(&mut self, candidate: &Candidate, sent: Instant, answered: Instant) {
        let until = sent + candidate.settings.claim;
        if sent >= self.leads_from && candidate.claim_until(until, answered, self.made) {
            let how = std::mem::replace(&mut self.how, "could renew the lease again".to_owned());
            candidate.tell(&format!("leading: {how}"));
        }
        if candidate.leads_at(answered) {
            self.made = false;
        }
    }
}

impl Seen {
    fn shows(&self, lease: Option<&Lease>) -> bool {
        match (&self.lease, lease) {
            (Some(seen), Some(lease)) => seen.says_the_same_as(lease),
            (None, None) => true,
            _ => false,
        }
    }

    fn is_free_at(&self, moment: Instant, settings: &LeaseSettings) -> bool {
        moment.saturating_duration_since(self.since) >= self.must_stand_for(settings)
    }

    fn free_in(&self, settings: &LeaseSettings) -> Duration {
        self.must_stand_for(settings)
            .saturating_sub(self.since.elapsed())
    }

    fn must_stand_for(&self, settings: &LeaseSettings) -> Duration {
        match &self.lease {
            // A leader makes its Lease anew at its next renewal, and is given the time for that.
            None => settings.retry * 2,
            Some(lease) => lease.must_stand_for(settings),
        }
    }
}

/// A Lease, of which anybody may have written anything. What it holds beside the fields that matter here is put back.
#[derive(Debug, Clone)]
struct Lease(DynamicObject);

/// What [`Lease::released`] writes; the API allows no less.
const RELEASED: Duration = Duration::from_secs(1);

/// Names who gave the Lease up. A Lease that somebody else emptied says nothing about whoever held it: that goes on
/// leading until it sees this.
const RELEASED_BY: &str = "zonewise.dev/released-by";

impl Lease {
    fn new(settings: &LeaseSettings) -> Self {
        let object = DynamicObject::new(&settings.name, &resource()).within(&settings.namespace);
        Self(object).owned(settings).with([
            ("holderIdentity", json!(settings.identity)),
            ("leaseDurationSeconds", json!(settings.lease_seconds())),
            ("acquireTime", now()),
            ("renewTime", now()),
            ("leaseTransitions", json!(0)),
        ])
    }

    fn renewed(&self, settings: &LeaseSettings) -> Self {
        let mut lease = self.clone();
        if let Some(annotations) = &mut lease.0.metadata.annotations {
            annotations.remove(RELEASED_BY);
        }
        lease.owned(settings).with([
            ("holderIdentity", json!(settings.identity)),
            ("leaseDurationSeconds", json!(settings.lease_seconds())),
            ("renewTime", now()),
        ])
    }

    fn taken(&self, settings: &LeaseSettings) -> Self {
        let changes_hands = self.holder() != settings.identity;
        let before = self.spec()["leaseTransitions"].as_i64();
        let before = before.and_then(|before| i32::try_from(before).ok());
        let transitions = before.unwrap_or(0).max(0);
        self.renewed(settings).with([
            ("acquireTime", now()),
            (
                "leaseTransitions",
                json!(transitions.saturating_add(i32::from(changes_hands))),
            ),
        ])
    }

    fn released(&self) -> Self {
        let mut lease = self.clone();
        let annotations = lease.0.metadata.annotations.get_or_insert_default();
        annotations.insert(RELEASED_BY.to_owned(), self.holder().to_owned());
        lease.with([
            ("holderIdentity", json!("")),
            ("leaseDurationSeconds", json!(RELEASED.as_secs())),
            ("renewTime", now()),
        ])
    }

    fn owned(mut self, settings: &LeaseSettings) -> Self {
        if let Some(owner) = settings.owner.as_ref().and_then(Owner::reference) {
            owner::add_to(&mut self.0.metadata, &owner);
        }
        self
    }

    fn with<const N: usize>(&self, fields: [(&str, Value); N]) -> Self {
        let mut spec: Map<String, Value> = self.spec().as_object().cloned().unwrap_or_default();
        for (name, value) in fields {
            spec.insert(name.to_owned(), value);
        }
        let mut lease = self.clone();
        lease.0.data = json!({"spec": spec});
        lease
    }

    fn spec(&self) -> &Value {
        &self.0.data["spec"]
    }

    /// Empty if there is none.
    fn holder(&self) -> &str {
        self.spec()["holderIdentity"].as_str().unwrap_or_default()
    }

    fn duration(&self) -> Option<Duration> {
        self.spec()["leaseDurationSeconds"]
            .as_u64()
            .map(Duration::from_secs)
    }

    fn is_released(&self) -> bool {
        let annotations = self.0.metadata.annotations.as_ref();
        let is_given_up = annotations.is_some_and(|all| all.contains_key(RELEASED_BY));
        is_given_up && self.holder().is_empty() && self.duration() == Some(RELEASED)
    }

    /// How long it must be seen unchanged before whoever it names has surely stopped.
    fn must_stand_for(&self, settings: &LeaseSettings) -> Duration {
        if self.is_released() {
            return Duration::ZERO;
        }
        let duration = self.duration().unwrap_or_default();
        duration.clamp(settings.lease, LONGEST_LEASE)
    }

    /// Metadata aside: whoever annotates it does not renew it.
    fn says_the_same_as(&self, other: &Self) -> bool {
        self.0.metadata.uid == other.0.metadata.uid && self.spec() == other.spec()
    }

    fn how_it_came_free(&self, settings: &LeaseSettings) -> String {
        if self.holder().is_empty() {
            return "the lease was free".to_owned();
        }
        format!(
            "took the lease of {}, unchanged for {}",
            for_a_line(self.holder()),
            Human(self.must_stand_for(settings))
        )
    }

    /// An answer that has what leading goes by.
    fn checked(self, verb: &'static str, holder: &str) -> Result<Self, Failure> {
        if self.holder() != holder {
            return Err(Failure::answer(
                verb,
                "it names another holder than it was sent",
            ));
        }
        if self.0.metadata.resource_version.is_none() {
            return Err(Failure::answer(verb, "it has no resourceVersion"));
        }
        Ok(self)
    }
}

fn resource() -> ApiResource {
    ApiResource::erase::<LeaseKind>(&())
}

/// With six decimals, without which the API server does not read it.
fn now() -> Value {
    json!(format!("{:.6}", Timestamp::now()))
}

/// Why a call did not do what it should.
#[derive(Debug)]
enum Failure {
    /// The Lease is no longer, or not yet, as it was thought to be.
    Conflict,
    /// There is no Lease.
    Absent,
    /// Anything else: what was to be done, the status if there was one, and what is the matter.
    Other {
        verb: &'static str,
        code: Option<u16>,
        problem: String,
    },
}

impl Failure {
    fn of(verb: &'static str, error: &kube::Error) -> Self {
        let (code, problem) = match error {
            kube::Error::Api(status) if status.code == 409 => return Self::Conflict,
            kube::Error::Api(status) if status.code == 404 => return Self::Absent,
            kube::Error::Api(status) => (
                Some(status.code),
                format!("{} ({})", status.message, status.code),
            ),
            error => (None, with_causes(error)),
        };
        Self::Other {
            verb,
            code,
            problem,
        }
    }

    fn silence(verb: &'static str, limit: Duration) -> Self {
        Self::Other {
            verb,
            code: None,
            problem: format!("no answer within {}", Human(limit)),
        }
    }

    fn answer(verb: &'static str, what: &str) -> Self {
        Self::Other {
            verb,
            code: None,
            problem: format!("the answer is of no use: {what}"),
        }
    }

    fn no_namespace() -> Self {
        Self::Other {
            verb: "create",
            code: Some(404),
            problem: "not found (404): see that its namespace is there".to_owned(),
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Conflict => Some(409),
            Self::Absent => Some(404),
            Self::Other { code, .. } => *code,
        }
    }

    fn problem(&self, settings: &LeaseSettings) -> String {
        match self {
            Self::Conflict => "somebody else wrote it meanwhile".to_owned(),
            Self::Absent => "it is not there".to_owned(),
            Self::Other {
                verb,
                code,
                problem,
            } => {
                let advice = if *code == Some(403) {
                    format!(
                        "; give its service account get, update and create for leases.coordination.k8s.io in namespace {}",
                        settings.namespace
                    )
                } else {
                    String::new()
                };
                format!("can't {verb} it: {}{advice}", for_a_line(problem))
            }
        }
    }
}

/// A time in which rounds fail. Each kind of failure is told once in it.
#[derive(Default)]
struct Spell {
    told: BTreeSet<Option<u16>>,
}

impl Spell {
    fn tell(&mut self, candidate: &Candidate, result: Result<(), Failure>) {
        match result {
            Ok(()) if self.told.is_empty() => {}
            Ok(()) => {
                self.told.clear();
                candidate.tell("the lease can be read and written again");
            }
            Err(failure) => {
                if self.told.insert(failure.code()) {
                    candidate.warn(
                        "the lease can't be read or written; trying again",
                        &failure.problem(&candidate.settings),
                    );
                }
            }
        }
    }
}
