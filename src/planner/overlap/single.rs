//! Choices in which every endpoint serves one zone, beside zones that everyone serves.

use std::cmp::Reverse;

use super::ROUNDING;
use super::choice::{self, Choice, Choices, Held};
use super::crowd::{Crowd, HOMELESS, MOST, Names};

/// How many endpoints of each home serve a zone of their own, and how many could serve another.
struct Counts {
    own: [u32; MOST],
    /// From elsewhere, for each zone.
    foreign: [u32; MOST],
    /// What is left at each home.
    spare: [u32; HOMELESS + 1],
}

/// `everyones` are served by everyone, and each other zone by as many endpoints as it then needs, its own ones first;
/// nothing where there are too few. Own endpoints that are left over serve their own zone too.
pub(super) fn choose(crowd: &Crowd, everyones: Names) -> Option<Choices> {
    let mut choices = [Choice::NOTHING; MOST];
    let mut ceiling = crowd.ceiling.most();
    for zone in everyones.zones() {
        choices[zone] = choice::everyone(crowd, zone, &Held::of(crowd, zone))?;
        ceiling -= choices[zone].part;
    }
    let others = Names::first(crowd.zones).without(everyones);
    let mut counts = Counts::needed(crowd, others, ceiling)?;
    counts.give(others)?;
    for zone in others.zones() {
        let held = Held::of(crowd, zone);
        let own = counts.own[zone] + counts.spare[zone];
        choices[zone] = choice::some(crowd, zone, &held, own, counts.foreign[zone])?;
    }
    Some(choices)
}

impl Counts {
    /// What `zones` need where each endpoint can take so much.
    fn needed(crowd: &Crowd, zones: Names, ceiling: f64) -> Option<Self> {
        let mut counts = Self {
            own: [0; MOST],
            foreign: [0; MOST],
            spare: crowd.free,
        };
        for zone in zones.zones() {
            let missing = Held::of(crowd, zone).missing(needed(crowd, zone, ceiling)?);
            counts.own[zone] = missing.min(crowd.free[zone]);
            counts.foreign[zone] = missing - counts.own[zone];
            counts.spare[zone] -= counts.own[zone];
        }
        Some(counts)
    }

    /// Takes what `zones` get from elsewhere from what is left: from homes without a zone among them first, then from the
    /// zone with the most.
    fn give(&mut self, zones: Names) -> Option<()> {
        let mut missing: u32 = self.foreign.iter().sum();
        if missing > self.spare.iter().sum() {
            return None;
        }
        for home in (0..=HOMELESS).filter(|&home| home == HOMELESS || !zones.has(home)) {
            let gives = missing.min(self.spare[home]);
            self.spare[home] -= gives;
            missing -= gives;
        }
        for _ in 0..missing {
            let most = zones
                .zones()
                .max_by_key(|&zone| (self.spare[zone], Reverse(zone)))?;
            self.spare[most] -= 1;
        }
        Some(())
    }
}

/// How many endpoints must serve a zone, each of which can take so much of its traffic; nothing where all are too few.
/// Packing checks it to the last digit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn needed(crowd: &Crowd, zone: usize, ceiling: f64) -> Option<u32> {
    let all = crowd.ceiling.part(crowd.weights[zone], 1);
    let needed = (all / ceiling - ROUNDING).ceil();
    let fits = ceiling > 0.0 && needed <= f64::from(crowd.endpoints);
    fits.then(|| crowd.minimum[zone].max(needed as u32))
}
