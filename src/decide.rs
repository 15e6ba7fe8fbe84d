//! The one decision that webhook, explain and demo share.
//!
//! [`decide`] looks at a slice as it is about to be written, the other slices of its Service as the cache knows them,
//! and the capacity of the zones; it answers with a [`Decision`]. It writes nothing and asks nobody.

pub mod endpoint_set;
mod hints;
pub mod opt_in;

use std::sync::Arc;

use self::endpoint_set::{EndpointSet, Stand};
use self::opt_in::{Heuristic, OptIn, OptInSource};
use crate::cluster::service::{HintsUnused, ServiceRecord};
use crate::cluster::slice::{AddressType, EndpointRecord, SliceRecord};
use crate::cluster::store::{Cluster, MeasuredCapacity, ServiceState};
use crate::planner::reason::Reason;
use crate::settings::{Mode, Settings};

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
    /// What asked for hints, where anything did.
    pub opt_in: Option<(OptInSource, Heuristic)>,
    /// With `Hints`, the number of the zone for each endpoint of the slice, in its order.
    pub hints: Vec<Option<u16>>,
    /// The capacity that it was decided on, and that zone numbers refer to.
    pub capacity: Arc<MeasuredCapacity>,
}

impl Decision {
    /// Whether the slice that it was made for has the hints that it asks for.
    #[must_use]
    pub fn is_carried_out(&self, slice: &SliceRecord) -> bool {
        let has = |endpoint: &EndpointRecord, hint: Option<u16>| match hint {
            None => endpoint.hints.zones().is_empty(),
            Some(zone) => endpoint.hints.zones() == [self.capacity.zone_key(zone)],
        };
        match self.verdict {
            Verdict::Kept | Verdict::Untouched => true,
            Verdict::Strip => {
                !slice.has_stray_hints && slice.endpoints.iter().all(|e| has(e, None))
            }
            Verdict::Hints => {
                let hints = slice.endpoints.iter().zip(&self.hints);
                !slice.has_stray_hints && hints.into_iter().all(|(e, hint)| has(e, *hint))
            }
        }
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
        match self.hints.iter().flatten().count() {
            1 => "1 ready endpoint of the slice is hinted.".to_owned(),
            hinted => format!("{hinted} ready endpoints of the slice are hinted."),
        }
    }
}

/// What a decision is made from, at one moment.
#[derive(Debug)]
pub struct Snapshot<'a> {
    cluster: &'a Cluster,
    capacity: Arc<MeasuredCapacity>,
    service: Option<Arc<ServiceState>>,
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
            synced: self.synced,
        }
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
    let mut opt_in = None;
    let outcome = may_hint(snapshot, service, slice, settings).and_then(|asked| {
        opt_in = Some(asked);
        let state = snapshot
            .service
            .as_ref()
            .expect("a Service that opted in is known");
        plan_slice(snapshot, state, slice, settings)
    });
    let capacity = snapshot.capacity.clone();
    match outcome {
        Ok(hints) => Decision {
            verdict: Verdict::Hints,
            reason: None,
            opt_in,
            hints,
            capacity,
        },
        Err(Refusal { verdict, reason }) => Decision {
            verdict,
            reason: Some(reason),
            opt_in,
            hints: Vec::new(),
            capacity,
        },
    }
}

/// Whether the slice is ours to hint, and who asked for it.
fn may_hint(
    snapshot: &Snapshot<'_>,
    service: Option<&str>,
    slice: &SliceRecord,
    settings: &Settings,
) -> Result<(OptInSource, Heuristic), Refusal> {
    if settings.mode == Mode::Off {
        return Err(Refusal::untouched(Reason::ModeOff));
    }
    if slice.address_type == AddressType::Other {
        return Err(Refusal::untouched(Reason::UnsupportedAddressType));
    }
    let name = service.ok_or_else(|| Refusal::untouched(Reason::UnknownService))?;
    if settings.is_reserved(name) {
        return Err(Refusal::untouched(Reason::ReservedService));
    }
    if !snapshot.synced {
        return Err(Refusal::kept(Reason::NotSynced));
    }
    let state = snapshot.service.as_ref();
    let record = state.and_then(|state| state.service.as_deref());
    let record = record.ok_or_else(|| Refusal::untouched(Reason::UnknownService))?;
    may_hint_service(name, record, settings)
}

/// Who asks for hints on the slices of the Service `name` (`namespace/name`), where they are ours to give at all.
#[must_use]
pub fn who_asks(
    name: &str,
    record: &ServiceRecord,
    settings: &Settings,
) -> Option<(OptInSource, Heuristic)> {
    if settings.is_reserved(name) {
        return None;
    }
    may_hint_service(name, record, settings).ok()
}

fn may_hint_service(
    name: &str,
    record: &ServiceRecord,
    settings: &Settings,
) -> Result<(OptInSource, Heuristic), Refusal> {
    if let Some(field) = record.odd_field {
        return Err(Refusal::kept(Reason::UnreadableObject {
            kind: "Service",
            name: name.into(),
            field,
        }));
    }
    if let Some(unused) = record.hints_unused {
        return Err(Refusal::untouched(why_unused(unused)));
    }
    who_asked(record, settings)
}

fn why_unused(unused: HintsUnused) -> Reason {
    match unused {
        HintsUnused::Headless => Reason::Headless,
        HintsUnused::OtherServiceProxy => Reason::OtherServiceProxy,
        HintsUnused::InternalTrafficPolicyLocal => Reason::InternalTrafficPolicyLocal,
    }
}

fn who_asked(
    record: &ServiceRecord,
    settings: &Settings,
) -> Result<(OptInSource, Heuristic), Refusal> {
    let refusal = match opt_in::read(record, settings) {
        OptIn::Heuristic(source, heuristic) => return Ok((source, heuristic)),
        OptIn::Disabled {
            kubernetes_hints: true,
        } => Refusal::untouched(Reason::OptedOut),
        OptIn::Disabled {
            kubernetes_hints: false,
        } => Refusal::strip(Reason::OptedOut),
        OptIn::Other(value) => Refusal::untouched(Reason::OtherHeuristic { value }),
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
    settings: &Settings,
) -> Result<Vec<Option<u16>>, Refusal> {
    let siblings = state.slices.iter().map(|sibling| &**sibling);
    // One whose address type can't be read may be of this one.
    let may_be_ours = |s: &SliceRecord| {
        s.address_type == slice.address_type
            || (s.address_type == AddressType::Other && s.odd_field.is_some())
    };
    let siblings = siblings.filter(|s| s.name != slice.name && may_be_ours(s));
    let slices: Vec<&SliceRecord> = std::iter::once(slice).chain(siblings).collect();
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
    let set = EndpointSet::gather(&slices, &snapshot.capacity, |record| snapshot.stand(record));
    let hints = hints::plan(&snapshot.capacity, &slices, &set, settings);
    Ok(set.project(&hints.map_err(Refusal::strip)?))
}
