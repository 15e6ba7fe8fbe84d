//! What holds along every trace, tried on many random ones: the same ones in every run.

use std::cell::Cell;

use proptest::prelude::*;
use zonewise::cluster::store::StoreRules;
use zonewise::planner::heuristic::Heuristic;
use zonewise::settings::Settings;
use zonewise::simulate::generate::{Shape, generate};
use zonewise::simulate::measures::State;
use zonewise::simulate::player::{Player, Write};
use zonewise::simulate::trace::{Event, Trace};

use crate::for_all::{for_all, is_often};

/// Small Services are the hard ones, and short traces make many.
fn traces() -> impl Strategy<Value = Trace> {
    let shape = (1..6usize, 3..18usize);
    (any::<u64>(), shape).prop_map(|(seed, (events, pods))| {
        let shape = Shape {
            events,
            pods: (2, pods),
            ..Shape::default()
        };
        generate(seed, shape)
    })
}

fn player(trace: &Trace, heuristic: Heuristic, slice_size: usize) -> Player {
    let store = StoreRules::default();
    let (zones, settings) = (&trace.header.zones, Settings::default());
    Player::new(zones, heuristic, slice_size, settings, store)
}

fn state(player: &Player, heuristic: Heuristic) -> State {
    State::of(
        player.world(),
        player.endpoints(),
        heuristic,
        Settings::default().threshold,
    )
}

/// Plays a trace: no write of a slice breaks the guarantee, it holds after every event, and what was decided is decided
/// again. Returns how many states were hinted.
fn check(trace: &Trace, heuristic: Heuristic, slice_size: usize) -> Result<u32, TestCaseError> {
    let mut player = player(trace, heuristic, slice_size);
    let mut hinted = 0;
    for event in &trace.events {
        let mut broken = false;
        // Other capacity may have broken it before the first write.
        let mut held = !changes_capacity(event);
        let writes = player.play_watched(event, |now, write| {
            let holds = !state(now, heuristic).is_violation;
            broken |= held && !holds && write == Write::Admitted;
            held = holds;
        });
        writes.map_err(|refused| TestCaseError::fail(refused.problem))?;
        prop_assert!(!broken, "a write breaks the guarantee: {:?}", event);
        let after = state(&player, heuristic);
        prop_assert!(!after.is_violation, "{:?} leads to {:?}", event, after);
        prop_assert_eq!(player.unsettled(), Vec::<&str>::new(), "{:?}", event);
        hinted += u32::from(after.is_hinted);
    }
    Ok(hinted)
}

fn changes_capacity(event: &Event) -> bool {
    !matches!(
        event,
        Event::PodAdded(_) | Event::PodRemoved { .. } | Event::PodReplaced { .. }
    )
}

fn for_all_traces(cases: u32, heuristic: Heuristic, slice_size: usize) {
    let hinted = Cell::new(0);
    for_all(cases, traces(), |trace| {
        hinted.set(hinted.get() + check(&trace, heuristic, slice_size)?);
        Ok(())
    });
    let hinted = hinted.get();
    assert!(
        is_often(hinted, cases),
        "{hinted} of many states are hinted"
    );
}

#[test]
fn the_guarantee_holds_after_every_event_and_decisions_stay_with_one_slice() {
    for_all_traces(10_000, Heuristic::Auto, 100);
}

#[test]
fn the_guarantee_holds_after_every_event_and_decisions_stay_with_several_slices() {
    for_all_traces(10_000, Heuristic::Auto, 5);
}

#[test]
fn no_endpoint_that_is_shared_is_above_the_ceiling_with_one_slice() {
    for_all_traces(3_000, Heuristic::Overlap, 100);
    for_all_traces(1_000, Heuristic::PreferZone, 100);
}

#[test]
fn no_endpoint_that_is_shared_is_above_the_ceiling_with_several_slices() {
    for_all_traces(3_000, Heuristic::Overlap, 5);
    for_all_traces(1_000, Heuristic::PreferZone, 5);
}
