//! The one decision that webhook, explain and demo share.
//!
//! [`decide`] looks at a slice as it is about to be written, the other slices of its Service as the cache knows them,
//! and the capacity of the zones; it answers with a [`Decision`]. It writes nothing and asks nobody.

pub mod endpoint_set;
mod hints;
pub mod judged;
pub mod opt_in;
pub mod ports;
pub mod remedy;
pub mod traffic;
pub mod trial;
pub mod whole;
mod zoneless;
pub mod zones;

use std::sync::Arc;

use self::endpoint_set::{EndpointSet, Stand};
use self::hints::PlanRules;
pub use self::hints::{Overloaded, ShortZone};
use self::opt_in::{Mistake, OptIn, OptInSource, Owner};
use self::zones::Zones;
use crate::cluster::annotations::{self, Invalid, Said, ZONE_WEIGHTS};
use crate::cluster::namespace::NamespaceRecord;
use crate::cluster::service::{HintsUnused, ServiceRecord};
use crate::cluster::slice::{AddressType, EndpointRecord, SliceRecord};
use crate::cluster::store::{Cluster, MeasuredCapacity, ServiceState};
use crate::planner::allocation::Threshold;
use crate::planner::heuristic::Heuristic;
use crate::planner::reason::Reason;
use crate::planner::zone_set::ZoneSet;
use crate::planner::zone_weights::ZoneWeights;
use crate::settings::{Mode, Settings};
use crate::words;

/// What is to be done with the hints of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every ready endpoint gets the hint that was planned for it.
    Hints,
    /// Every hint is taken away.
    Strip,
    /// No decision is possible: the hints that were stored stay.
    Kept,
    /// Not ours: the slice stays as it is sent.
    Untouched,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hints, Self::Strip, Self::Kept, Self::Untouched];

    /// The word for it in JSON, metrics and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Hints => "Hints",
            Self::Strip => "Strip",
            Self::Kept => "Kept",
            Self::Untouched => "Untouched",
        }
    }
}

/// A decision on one slice.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    /// Why; nothing for `Hints`.
    pub reason: Option<Reason>,
    /// What was asked for, where anything was.
    pub asked: Option<Asked>,
    /// What is done with it: that of the settings, or what the Namespace says.
    pub mode: Mode,
    /// With `Hints`, the zones for each endpoint of the slice, in its order; also for those that are not ready.
    pub hints: Vec<ZoneSet>,
    /// The capacity that it was decided on, and that zone numbers refer to.
    pub capacity: Arc<MeasuredCapacity>,
}

impl Decision {
    /// Whether the slice that it was made for has the hints that it asks for.
    #[must_use]
    pub fn is_carried_out(&self, slice: &SliceRecord) -> bool {
        let has = |endpoint: &EndpointRecord, zones: ZoneSet| {
            let wanted = zones.zones().iter();
            let wanted = wanted.map(|zone| self.capacity.zone_key(*zone));
            wanted.eq(endpoint.hints.zones().iter().copied())
        };
        match self.verdict {
            Verdict::Kept | Verdict::Untouched => true,
            Verdict::Strip => {
                let bare = |endpoint| has(endpoint, ZoneSet::EMPTY);
                !slice.has_node_hints && slice.endpoints.iter().all(bare)
            }
            Verdict::Hints => {
                let hints = slice.endpoints.iter().zip(&self.hints);
                !slice.has_node_hints && hints.into_iter().all(|(e, hint)| has(e, *hint))
            }
        }
    }

    /// How many endpoints of the slice are to be hinted.
    #[must_use]
    pub fn hinted(&self) -> usize {
        let hinted = self.hints.iter().filter(|zones| !zones.is_empty());
        hinted.count()
    }

    /// The word of the reason, empty where there is none.
    #[must_use]
    pub fn reason_word(&self) -> &'static str {
        self.reason.as_ref().map_or("", Reason::word)
    }

    /// One sentence for people.
    #[must_use]
    pub fn message(&self) -> String {
        if let Some(reason) = &self.reason {
            return reason.message();
        }
        match self.hinted() {
            1 => "1 ready endpoint of the slice is hinted.".to_owned(),
            hinted => format!("{hinted} ready endpoints of the slice are hinted."),
        }
    }
}

/// What is asked for, and what its plans follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What asks.
    pub source: OptInSource,
    /// How hints are planned.
    pub heuristic: Heuristic,
    /// The overload threshold.
    pub threshold: Threshold,
    /// Weights in place of capacity, and whose annotation says so.
    pub zone_weights: Option<(Owner, Arc<ZoneWeights>)>,
}

impl Asked {
    /// The zones as its plans see them.
    #[must_use]
    pub fn zones<'a>(&self, capacity: &'a MeasuredCapacity) -> Zones<'a> {
        let weights = self.zone_weights.as_ref();
        Zones::of(capacity, weights.map(|(_, weights)| &**weights))
    }
}

/// What a decision is made from, at one moment.
#[derive(Debug)]
pub struct Snapshot<'a> {
    cluster: &'a Cluster,
    capacity: Arc<MeasuredCapacity>,
    service: Option<Arc<ServiceState>>,
    namespace: Option<Arc<NamespaceRecord>>,
    synced: bool,
}

impl<'a> Snapshot<'a> {
    /// What is known now, about the Service `namespace/name` in particular.
    #[must_use]
    pub fn take(cluster: &'a Cluster, service: Option<&str>) -> Self {
        Self {
            cluster,
            capacity: cluster.capacity(),
            service: service.and_then(|name| cluster.service(name)),
            namespace: service
                .and_then(|name| name.split_once('/'))
                .and_then(|(namespace, _)| cluster.namespace(namespace)),
            synced: cluster.all_synced(),
        }
    }

    /// The same with other slices than those in the cache.
    #[must_use]
    pub fn with_slices(&self, slices: Vec<Arc<SliceRecord>>) -> Self {
        let service = self.service.as_ref().map(|state| {
            Arc::new(ServiceState {
                service: state.service.clone(),
                slices: slices.into(),
                last_logged: state.last_logged.clone(),
            })
        });
        Self {
            cluster: self.cluster,
            capacity: self.capacity.clone(),
            service,
            namespace: self.namespace.clone(),
            synced: self.synced,
        }
    }

    /// The same with another Service in place of the one that is known, or of none, and its slices as they are.
    #[must_use]
    pub fn with_service(&self, service: ServiceRecord) -> Self {
        let known = self.service.as_deref();
        let state = ServiceState {
            service: Some(Arc::new(service)),
            slices: known.map(|state| state.slices.clone()).unwrap_or_default(),
            last_logged: known
                .map(|state| state.last_logged.clone())
                .unwrap_or_default(),
        };
        Self {
            cluster: self.cluster,
            capacity: self.capacity.clone(),
            service: Some(Arc::new(state)),
            namespace: self.namespace.clone(),
            synced: self.synced,
        }
    }

    /// Whether everything that decisions are made from has been listed once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The Namespace, where it says anything.
    #[must_use]
    pub fn namespace(&self) -> Option<&NamespaceRecord> {
        self.namespace.as_deref()
    }

    /// The Service, where it or a slice of it is known.
    #[must_use]
    pub fn service(&self) -> Option<&Arc<ServiceState>> {
        self.service.as_ref()
    }

    /// The capacity.
    #[must_use]
    pub fn capacity(&self) -> &Arc<MeasuredCapacity> {
        &self.capacity
    }

    /// Where an endpoint stands.
    #[must_use]
    pub fn stand(&self, record: &EndpointRecord) -> Stand {
        endpoint_set::stand(record, &self.capacity, |node| {
            self.cluster.zone_of_node(node)
        })
    }
}

/// Why there is no plan: the verdict that follows and its reason.
struct Refusal {
    verdict: Verdict,
    reason: Reason,
}

impl Refusal {
    fn strip(reason: Reason) -> Self {
        Self {
            verdict: Verdict::Strip,
            reason,
        }
    }

    fn kept(reason: Reason) -> Self {
        Self {
            verdict: Verdict::Kept,
            reason,
        }
    }

    fn untouched(reason: Reason) -> Self {
        Self {
            verdict: Verdict::Untouched,
            reason,
        }
    }
}

/// Decides on `slice`, which belongs to the Service `service` (`namespace/name`) where it names one.
///
/// The hints in its records are those that its endpoints have now, as stored: a plan keeps what is good of them.
///
/// # Panics
/// Where the settings ask for it; callers catch what happens all the same.
#[must_use]
pub fn decide(
    snapshot: &Snapshot<'_>,
    service: Option<&str>,
    slice: &SliceRecord,
    settings: &Settings,
) -> Decision {
    assert!(
        service.is_none() || service != settings.panic_on_service.as_deref(),
        "asked to by --panic-on-service"
    );
    let mode = mode(snapshot.namespace.as_deref(), settings);
    let mut asked = None;
    let outcome = may_hint(snapshot, service, slice, settings, mode).and_then(|request| {
        let request = asked.insert(request);
        let state = snapshot
            .service
            .as_ref()
            .expect("a Service that opted in is known");
        plan_slice(snapshot, state, slice, request, settings)
    });
    let (verdict, reason, hints) = match outcome {
        Ok(hints) => (Verdict::Hints, None, hints),
        Err(Refusal { verdict, reason }) => (verdict, Some(reason), Vec::new()),
    };
    Decision {
        verdict,
        reason,
        asked,
        // Where the Namespace's can't be used, what is stored is kept all the same.
        mode: mode.unwrap_or(settings.mode),
        hints,
        capacity: snapshot.capacity.clone(),
    }
}

/// What is done with decisions on Services of a Namespace: what it says, unless all is off.
///
/// # Errors
/// Its annotation, where that can't be used.
pub fn mode<'a>(
    namespace: Option<&'a NamespaceRecord>,
    settings: &Settings,
) -> Result<Mode, &'a Invalid> {
    match namespace.and_then(|namespace| namespace.annotations.mode.as_ref()) {
        _ if settings.mode == Mode::Off => Ok(Mode::Off),
        Some(mode) => mode.as_ref().copied().map_err(|invalid| &**invalid),
        None => Ok(settings.mode),
    }
}

/// Whether the slice is ours to hint, and who asked for it.
fn may_hint(
    snapshot: &Snapshot<'_>,
    service: Option<&str>,
    slice: &SliceRecord,
    settings: &Settings,
    mode: Result<Mode, &Invalid>,
) -> Result<Asked, Refusal> {
    if mode == Ok(Mode::Off) {
        return Err(Refusal::untouched(Reason::ModeOff));
    }
    if slice.address_type == AddressType::Other {
        return Err(Refusal::untouched(Reason::UnsupportedAddressType));
    }
    let unknown = |has_label| Refusal::untouched(Reason::UnknownService { has_label });
    let name = service.ok_or_else(|| unknown(false))?;
    if is_ignored(slice, settings) {
        let manager = slice.manager.as_str().unwrap_or_default().into();
        return Err(Refusal::untouched(Reason::IgnoredManager { manager }));
    }
    if settings.is_reserved(name) {
        return Err(Refusal::untouched(Reason::ReservedService));
    }
    if !snapshot.synced {
        return Err(Refusal::kept(Reason::NotSynced));
    }
    let state = snapshot.service.as_ref();
    let record = state.and_then(|state| state.service.as_deref());
    let record = record.ok_or_else(|| unknown(true))?;
    asked_of(snapshot, name, record, settings)
}

/// What is asked for, and can be used.
fn asked_of(
    snapshot: &Snapshot<'_>,
    name: &str,
    record: &ServiceRecord,
    settings: &Settings,
) -> Result<Asked, Refusal> {
    let asked = may_hint_service(name, record, snapshot.namespace(), settings);
    let does_nothing = matches!(&asked, Err(refusal) if refusal.verdict != Verdict::Strip);
    // A mode that can't be read may mean that hints are to be left alone.
    if !does_nothing && let Err(invalid) = mode(snapshot.namespace(), settings) {
        return Err(invalid_annotation(name, Owner::Namespace, invalid));
    }
    let asked = asked?;
    if let Some((owner, zone_weights)) = &asked.zone_weights
        && let Some(invalid) = unknown_zone(snapshot, zone_weights)
    {
        return Err(invalid_annotation(name, *owner, &invalid));
    }
    Ok(asked)
}

/// What is wrong with weights that name a zone which no Node is in, counted or not.
fn unknown_zone(snapshot: &Snapshot<'_>, zone_weights: &ZoneWeights) -> Option<Invalid> {
    let zones = &snapshot.capacity.capacity.zones;
    let is_there = |zone: &str| {
        let counts = zones.iter().any(|counted| *counted.name == *zone);
        counts || snapshot.cluster.has_zone(zone)
    };
    let unknown = zone_weights.names().find(|zone| !is_there(zone))?;
    let known: Vec<&str> = zones.iter().map(|zone| &*zone.name).collect();
    let there_are = words::first(&known);
    let problem = format!("no node is in zone {unknown}; there are {there_are}");
    Some(annotations::invalid(
        ZONE_WEIGHTS,
        &zone_weights.to_string(),
        problem,
    ))
}

fn invalid_annotation(service: &str, owner: Owner, invalid: &Invalid) -> Refusal {
    let (kind, name) = match owner {
        Owner::Service => ("Service", service),
        Owner::Namespace => {
            let namespace = service.split_once('/').map(|(namespace, _)| namespace);
            ("Namespace", namespace.unwrap_or_default())
        }
    };
    Refusal::kept(Reason::InvalidAnnotation {
        kind,
        name: name.into(),
        key: invalid.key,
        value: invalid.value.clone(),
        problem: invalid.problem.clone(),
    })
}

/// What is asked for on the slices of the Service `name` (`namespace/name`), where decisions follow it.
#[must_use]
pub fn asked_for(snapshot: &Snapshot<'_>, name: &str, settings: &Settings) -> Option<Asked> {
    let record = snapshot.service()?.service.as_ref()?;
    asked_of(snapshot, name, record, settings).ok()
}

/// What asks for hints on the slices of the Service `name` (`namespace/name`), where they are ours to give hints at all, also
/// where it can't be used: the hints that were given before are kept then.
#[must_use]
pub fn who_asks(
    name: &str,
    record: &ServiceRecord,
    namespace: Option<&NamespaceRecord>,
    settings: &Settings,
) -> Option<OptInSource> {
    if settings.is_reserved(name) || record.hints_unused.is_some() {
        return None;
    }
    match opt_in::read(record, namespace, settings) {
        Ok(OptIn::Heuristic(source, _)) => Some(source),
        Ok(_) => None,
        Err(mistake) => Some(match mistake.owner {
            Owner::Service => OptInSource::TopologyMode,
            Owner::Namespace => OptInSource::Namespace,
        }),
    }
}

fn may_hint_service(
    name: &str,
    record: &ServiceRecord,
    namespace: Option<&NamespaceRecord>,
    settings: &Settings,
) -> Result<Asked, Refusal> {
    let odd = |kind, name: &str, field| {
        let name = name.into();
        Refusal::kept(Reason::UnreadableObject { kind, name, field })
    };
    if let Some(field) = record.odd_field {
        return Err(odd("Service", name, field));
    }
    if let Some(unused) = record.hints_unused {
        return Err(Refusal::untouched(why_unused(unused)));
    }
    if let Some(field) = namespace.and_then(|namespace| namespace.odd_field) {
        let namespace = name.split_once('/').map(|(namespace, _)| namespace);
        return Err(odd("Namespace", namespace.unwrap_or_default(), field));
    }
    let (source, heuristic) = who_asked(name, record, namespace, settings)?;
    parameters(record, namespace, settings, source, heuristic)
        .map_err(|mistake| invalid_annotation(name, mistake.owner, &mistake.invalid))
}

/// What plans follow: what the Service's annotations say, then its Namespace's, then the settings.
fn parameters(
    record: &ServiceRecord,
    namespace: Option<&NamespaceRecord>,
    settings: &Settings,
    source: OptInSource,
    heuristic: Heuristic,
) -> Result<Asked, Mistake> {
    let own = &record.annotations;
    let of_namespace = namespace.map(|namespace| &namespace.annotations);
    let threshold = first_said([
        (Owner::Service, own.threshold.as_ref()),
        (
            Owner::Namespace,
            of_namespace.and_then(|a| a.threshold.as_ref()),
        ),
    ])?;
    let zone_weights = first_said([
        (Owner::Service, own.zone_weights.as_ref()),
        (
            Owner::Namespace,
            of_namespace.and_then(|a| a.zone_weights.as_ref()),
        ),
    ])?;
    Ok(Asked {
        source,
        heuristic,
        threshold: threshold.map_or(settings.threshold, |(_, threshold)| *threshold),
        zone_weights: zone_weights.map(|(owner, weights)| (owner, weights.clone())),
    })
}

/// What the first of two owners says that says anything.
fn first_said<T>(said: [(Owner, Option<&Said<T>>); 2]) -> Result<Option<(Owner, &T)>, Mistake> {
    let first = said
        .into_iter()
        .find_map(|(owner, value)| Some((owner, value?)));
    match first {
        None => Ok(None),
        Some((owner, Ok(value))) => Ok(Some((owner, value))),
        Some((owner, Err(invalid))) => Err(Mistake {
            owner,
            invalid: Invalid::clone(invalid),
        }),
    }
}

fn why_unused(unused: HintsUnused) -> Reason {
    match unused {
        HintsUnused::Headless => Reason::Headless,
        HintsUnused::OtherServiceProxy => Reason::OtherServiceProxy,
        HintsUnused::InternalTrafficPolicyLocal => Reason::InternalTrafficPolicyLocal,
    }
}

fn who_asked(
    name: &str,
    record: &ServiceRecord,
    namespace: Option<&NamespaceRecord>,
    settings: &Settings,
) -> Result<(OptInSource, Heuristic), Refusal> {
    let opt_in = opt_in::read(record, namespace, settings)
        .map_err(|mistake| invalid_annotation(name, mistake.owner, &mistake.invalid))?;
    let refusal = match opt_in {
        OptIn::Heuristic(source, heuristic) => return Ok((source, heuristic)),
        OptIn::Disabled {
            kubernetes_hints: true,
        } => Refusal::untouched(Reason::OptedOut),
        OptIn::Disabled {
            kubernetes_hints: false,
        } => Refusal::strip(Reason::OptedOut),
        OptIn::Other(value) => Refusal::untouched(Reason::OtherHeuristic { value }),
        OptIn::LeftToKubernetes => Refusal::untouched(Reason::LeftToKubernetes),
        OptIn::SameNode => Refusal::untouched(Reason::PreferSameNode),
        OptIn::Nothing => Refusal::untouched(Reason::NotOptedIn),
    };
    Err(refusal)
}

/// The hints for each endpoint of `slice`, given the slices of its Service that are stored.
fn plan_slice(
    snapshot: &Snapshot<'_>,
    state: &ServiceState,
    slice: &SliceRecord,
    asked: &Asked,
    settings: &Settings,
) -> Result<Vec<ZoneSet>, Refusal> {
    let slices = slices_of_set(state, slice, settings);
    let is_odd = |slice: &&&SliceRecord| slice.odd_field.is_some();
    if let Some(odd) = slices.iter().find(is_odd) {
        let (name, field) = (odd.name.clone(), odd.odd_field.unwrap_or_default());
        return Err(Refusal::kept(Reason::UnreadableObject {
            kind: "EndpointSlice",
            name,
            field,
        }));
    }
    if let Some(reason) = snapshot.capacity.capacity.obstacle() {
        return Err(Refusal::strip(reason));
    }
    let zones = asked.zones(&snapshot.capacity);
    if zones.weights.iter().all(|weight| *weight == 0) {
        return Err(Refusal::strip(Reason::WeighedZonesWithoutCapacity));
    }
    let stand = |record: &EndpointRecord| snapshot.stand(record);
    let set = EndpointSet::gather(&slices, &snapshot.capacity, stand);
    let rules = plan_rules(asked, settings);
    let hints = zoneless::check(snapshot, &slices, &set, asked.heuristic)
        .and_then(|()| hints::plan(&zones, &slices, &set, rules, stand));
    match hints {
        Ok(hints) => Ok(hints),
        // What Kubernetes itself wrote then says no less.
        Err(reason @ Reason::NoBetterThanNone { .. })
            if asked.source == OptInSource::TrafficDistribution =>
        {
            Err(Refusal::untouched(reason))
        }
        Err(reason) => Err(Refusal::strip(reason)),
    }
}

/// Whether `--ignored-slice-managers` leaves a slice out.
#[must_use]
pub fn is_ignored(slice: &SliceRecord, settings: &Settings) -> bool {
    let ignored = &settings.ignored_slice_managers;
    let manager = slice.manager.as_str();
    manager.is_some_and(|manager| ignored.iter().any(|ignored| ignored == manager))
}

/// The slices of a Service that make one endpoint set with `slice`, which comes first.
fn slices_of_set<'a>(
    state: &'a ServiceState,
    slice: &'a SliceRecord,
    settings: &Settings,
) -> Vec<&'a SliceRecord> {
    let siblings = state.slices.iter().map(|sibling| &**sibling);
    // One whose address type can't be read may be of this one.
    let may_be_ours = |s: &SliceRecord| {
        s.address_type == slice.address_type
            || (s.address_type == AddressType::Other && s.odd_field.is_some())
    };
    let siblings = siblings.filter(|s| s.name != slice.name && may_be_ours(s));
    let siblings = siblings.filter(|s| !is_ignored(s, settings));
    std::iter::once(slice).chain(siblings).collect()
}

fn plan_rules(asked: &Asked, settings: &Settings) -> PlanRules {
    PlanRules {
        heuristic: asked.heuristic,
        threshold: asked.threshold,
        keep: settings.keep,
    }
}
