//! Plays traces through the same decisions as the webhook, and measures what comes of them.

pub mod chart;
pub mod generate;
pub mod measures;
pub mod player;
pub mod slices;
pub mod trace;
pub mod world;

use self::measures::{Measures, State};
use self::player::{Player, Writes};
use self::trace::Trace;
use crate::cluster::store::StoreRules;
use crate::planner::heuristic::Heuristic;
use crate::settings::Settings;

/// How traces are played.
#[derive(Debug, Clone)]
pub struct Rules {
    /// How many endpoints a slice holds at most.
    pub slice_size: usize,
    /// How to decide.
    pub settings: Settings,
    /// How to sum nodes up.
    pub store: StoreRules,
}

/// A state of a played trace, for a chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The part of the traffic that stays in its zone.
    pub in_zone_share: Option<f64>,
    /// How far above the average the busiest endpoint is loaded.
    pub worst_overload: Option<f64>,
    /// Changed hints of endpoints that stayed, since the start.
    pub hint_changes: u64,
}

/// Plays a trace for a heuristic, counts what happens into `measures`, and tells `each` state after the start.
pub fn play(
    trace: &Trace,
    heuristic: Heuristic,
    rules: &Rules,
    measures: &mut Measures,
    mut each: impl FnMut(Point),
) {
    let mut player = Player::new(
        &trace.header.zones,
        heuristic,
        rules.slice_size,
        rules.settings.clone(),
        rules.store.clone(),
    );
    let mut before: Option<State> = None;
    let changes_at_start = measures.hint_changes;
    for event in &trace.events {
        let writes: Writes = player.play(event).expect("a trace has been tried out");
        let threshold = rules.settings.threshold;
        let after = State::of(player.world(), player.endpoints(), heuristic, threshold);
        if let Some(before) = &before {
            measures.add(event, before, &after, writes);
            each(Point {
                in_zone_share: after.in_zone_share,
                worst_overload: after.worst_overload,
                hint_changes: measures.hint_changes - changes_at_start,
            });
        }
        before = Some(after);
    }
}
