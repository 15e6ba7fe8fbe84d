//! What drift sees, as people are told of it.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::Work;
use crate::controller::events::{self, ServiceSet};
use crate::controller::look::{Look, State};
use crate::planner::capacity::Measure;
use crate::planner::heuristic::Heuristic;
use crate::planner::reason::Reason;
use crate::words;

impl Work {
    /// Posts events in a term.
    pub(super) fn tell_while(&self, term: u64) -> AbortOnDropHandle<()> {
        let (events, claim) = (self.drift.events.clone(), self.drift.claim.clone());
        let may_write = move || claim.write().filter(|_| claim.term() == Some(term));
        let posting = async move { events.run(may_write).await };
        AbortOnDropHandle::new(tokio::spawn(posting))
    }

    /// Has people told of what changed for a Service.
    pub(super) fn observe(&mut self, service: &str, look: &Look) {
        let is_first = self.first_looks.remove(service);
        self.observe_nodes(look);
        let (Some((namespace, name)), Some(uid)) = (service.split_once('/'), &look.uid) else {
            return;
        };
        let events = &self.drift.events;
        for state in &look.states {
            let (verdict, reason) = (state.decision.verdict, state.decision.reason.as_ref());
            let Some(told) = events::State::of(verdict, reason) else {
                continue;
            };
            let set = ServiceSet {
                namespace: namespace.into(),
                name: name.into(),
                uid: uid.clone(),
                address_type: state.address_type,
            };
            if is_first && self.stands(look, state, &told) {
                events.assume(set.clone(), told.clone());
            }
            // Hints are on when all slices have them.
            if told != events::State::Enabled || state.is_carried_out || !look.is_active() {
                events.observe(set, told, || sentence(look, state));
            }
        }
    }

    /// Whether a state that is found at the beginning of a term is no news, because slices show that it was so before.
    /// Where nobody ever led, nobody was told why there are no hints.
    fn stands(&self, look: &Look, state: &State, told: &events::State) -> bool {
        let is_told = !self.drift.claim.is_first_ever();
        match told {
            events::State::Enabled => state.has_hints || (is_told && !look.is_active()),
            events::State::Disabled(_) => is_told && (state.is_carried_out || !look.is_active()),
            events::State::Mistaken(_) => is_told,
            events::State::Silent => false,
        }
    }

    /// Has people told of the nodes before the Services that lose their hints by them. At the beginning of a term nodes
    /// are no news if no Service has hints to lose by them, which the first looks tell.
    fn observe_nodes(&mut self, look: &Look) {
        let capacity = self.drift.cluster.capacity();
        let is_known = |observed: &Arc<_>| Arc::ptr_eq(observed, &capacity);
        if self.observed.as_ref().is_some_and(is_known) {
            return;
        }
        let may_stand = self.observed.is_none() && !self.drift.claim.is_first_ever();
        let are_news = !may_stand || (look.is_active() && loses_hints_by_nodes(look));
        if !are_news && !self.first_looks.is_empty() {
            return;
        }
        let culprits = capacity.capacity.culprits();
        self.drift.events.observe_nodes(culprits, !are_news);
        self.observed = Some(capacity);
    }
}

fn loses_hints_by_nodes(look: &Look) -> bool {
    look.states.iter().any(|state| {
        let is_by_nodes = matches!(
            state.decision.reason,
            Some(Reason::InsufficientNodeInfo { .. })
        );
        is_by_nodes && !state.is_carried_out
    })
}

fn sentence(look: &Look, state: &State) -> String {
    let sentence = match &state.decision.reason {
        Some(reason) => reason.message(),
        None => hinted(state),
    };
    if look.is_active() {
        sentence
    } else {
        format!("Mode {:?}, nothing is written: {sentence}", look.mode)
    }
}

fn hinted(state: &State) -> String {
    let decision = &state.decision;
    let asked = decision.asked.as_ref();
    let weights = asked.map(|asked| asked.zones(&decision.capacity).weights.into_owned());
    let zones = weights.unwrap_or_default();
    let zones = zones.iter().filter(|weight| **weight > 0).count();
    let how = match asked {
        Some(asked) if asked.zone_weights.is_some() => "by the weights that are given",
        Some(asked) if asked.heuristic == Heuristic::PreferZone => "each its own",
        _ => match decision.capacity.capacity.rules.measure {
            Measure::Cpu => "in proportion to their CPU",
            Measure::Nodes => "in proportion to their nodes",
        },
    };
    format!(
        "{} serve {} {how}.",
        words::count(state.hinted, "ready endpoint"),
        words::count(zones, "zone")
    )
}
