//! By how many endpoints a zone could be served.

use super::crowd::{ByZone, Crowd};

/// How many endpoints serve one zone, and what comes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// Free endpoints of the zone itself that serve it.
    pub(super) own: u32,
    /// Free endpoints from elsewhere that serve it.
    pub(super) foreign: u32,
    /// All that serve it.
    pub(super) served_by: u32,
    /// What each of those gets of the zone's traffic, where 1 is an endpoint's average load.
    pub(super) part: f64,
    /// The part of all traffic that the zone keeps.
    pub(super) in_zone: f64,
    pub(super) naming: Naming,
}

/// Who names a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// Those that serve it.
    Some,
    /// All serve it, and all name it, since fixed ones do.
    All,
    /// All serve it, and none names it, since no fixed one does.
    None,
    /// All serve it, and either all or none name it.
    AllOrNone,
}

impl Naming {
    /// Whether all serve the zone.
    pub(super) fn is_everyone(self) -> bool {
        self != Self::Some
    }
}

/// What could be chosen for each zone.
pub(super) type Choices = ByZone<Choice>;

impl Choice {
    /// Nothing; for places beyond the counted zones.
    pub(super) const NOTHING: Self = Self {
        own: 0,
        foreign: 0,
        served_by: 0,
        part: 0.0,
        in_zone: 0.0,
        naming: Naming::Some,
    };
}

/// The part of all traffic that stays in its zone.
pub(super) fn in_zone(choices: &Choices) -> f64 {
    choices.iter().map(|choice| choice.in_zone).sum()
}

/// What the fixed endpoints do for a zone.
pub(super) struct Held {
    /// How many serve it.
    serving: u32,
    /// How many of those stand in it.
    at_home: u32,
    all: u32,
}

impl Held {
    pub(super) fn of(crowd: &Crowd, zone: usize) -> Self {
        Self {
            serving: crowd.fixed(|group| group.names.has(zone)),
            at_home: crowd.fixed(|group| group.names.has(zone) && group.home == zone),
            all: crowd.fixed(|_| true),
        }
    }

    /// How many free endpoints must serve a zone which needs so many.
    pub(super) fn missing(&self, needed: u32) -> u32 {
        needed.saturating_sub(self.serving)
    }
}

/// The zone is served by that many free endpoints; nothing where that is too few, or would be none, which means all.
pub(super) fn some(
    crowd: &Crowd,
    zone: usize,
    held: &Held,
    own: u32,
    foreign: u32,
) -> Option<Choice> {
    let served_by = held.serving + own + foreign;
    if served_by == 0 || served_by == crowd.endpoints {
        return None;
    }
    (served_by >= crowd.minimum[zone]).then(|| Choice {
        own,
        foreign,
        served_by,
        part: crowd.ceiling.part(crowd.weights[zone], served_by),
        in_zone: crowd.in_zone(zone, held.at_home + own, served_by),
        naming: Naming::Some,
    })
}

/// The zone is served by every endpoint, where the fixed ones allow that.
pub(super) fn everyone(crowd: &Crowd, zone: usize, held: &Held) -> Option<Choice> {
    let naming = match (held.serving, held.all) {
        (0, 0) => Naming::AllOrNone,
        (0, _) => Naming::None,
        (serving, all) if serving == all => Naming::All,
        _ => return None,
    };
    Some(Choice {
        own: crowd.free[zone],
        foreign: crowd.free() - crowd.free[zone],
        served_by: crowd.endpoints,
        part: crowd.ceiling.part(crowd.weights[zone], crowd.endpoints),
        in_zone: crowd.in_zone(zone, crowd.at_home(zone), crowd.endpoints),
        naming,
    })
}

/// What keeps the most of a zone's traffic, if no other zone is in the way.
pub(super) fn best_in_zone(crowd: &Crowd, zone: usize) -> f64 {
    let held = Held::of(crowd, zone);
    let own = crowd.free[zone];
    let foreign = held.missing(crowd.minimum[zone]).saturating_sub(own);
    let at_best = [
        some(crowd, zone, &held, own, foreign),
        everyone(crowd, zone, &held),
    ];
    let in_zone = at_best.iter().flatten().map(|choice| choice.in_zone);
    in_zone.fold(0.0, f64::max)
}

/// All that could be chosen for a zone and keeps at least `least` of all traffic, what keeps the most first.
///
/// In large Services only so many counts are looked at that the work stays small.
pub(super) fn for_zone(crowd: &Crowd, zone: usize, least: f64) -> Vec<Choice> {
    let held = Held::of(crowd, zone);
    let elsewhere = crowd.free() - crowd.free[zone];
    let mut choices: Vec<Choice> = everyone(crowd, zone, &held).into_iter().collect();
    for own in steps(0, crowd.free[zone]).map(|fewer| crowd.free[zone] - fewer) {
        let needed = held.missing(crowd.minimum[zone]).saturating_sub(own);
        let counts = steps(needed, elsewhere);
        choices.extend(counts.filter_map(|foreign| some(crowd, zone, &held, own, foreign)));
    }
    choices.retain(|choice| choice.in_zone >= least);
    // Of those that keep the same, the one with fewer foreign and more own endpoints is nearer to what Kubernetes gives.
    choices.sort_by(|a, b| {
        let better = b.in_zone.total_cmp(&a.in_zone);
        better
            .then(a.foreign.cmp(&b.foreign))
            .then(b.own.cmp(&a.own))
    });
    choices
}

/// From `first` to `last`: one by one at first, then in growing steps.
fn steps(first: u32, last: u32) -> impl Iterator<Item = u32> {
    let next = move |&step: &u32| {
        let stride = 1 + (step - first) / 32 * 4;
        (step < last).then(|| (step + stride).min(last))
    };
    std::iter::successors((first <= last).then_some(first), next)
}
