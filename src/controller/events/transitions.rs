//! What was told of each object, what is so now, and so what is to be told next.

use std::collections::{HashMap, HashSet, VecDeque};
use std::slice;

use jiff::Timestamp;

use super::record::Posted;
use super::{ServiceSet, State};
use crate::planner::capacity::{InsufficientNode, Missing};
use crate::planner::reason::Reason;
use crate::words;

/// How many objects can wait to be told of. What comes while so many wait is passed over, and counts when it is observed
/// again.
pub(super) const MOST_WAITING: usize = 10_000;

/// What Events are about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Subject {
    /// A node, by its name.
    Node(Box<str>),
    Service(ServiceSet),
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Node(name) => name,
            Self::Service(service) => &service.name,
        }
    }

    /// Events on objects without a namespace are kept in `default`, as Kubernetes' own are.
    pub(super) fn namespace_of_events(&self) -> &str {
        match self {
            Self::Node(_) => "default",
            Self::Service(service) => &service.namespace,
        }
    }
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) subject: Subject,
    /// The transitions of an object are numbered, from 1 on.
    pub(super) number: u64,
    pub(super) state: State,
    pub(super) sentence: String,
    /// When it was first about to be told.
    pub(super) at: Timestamp,
}

/// What came of telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The world knows.
    Told,
    /// It can't be told, and is left out.
    LeftOut,
    /// Nobody can say whether the world knows.
    Again,
}

/// What was last told, under which number; no state where that is not known.
#[derive(Debug, Default)]
struct Told {
    number: u64,
    state: Option<State>,
}

#[derive(Debug)]
struct Now {
    state: State,
    /// Empty where there was nothing to tell.
    sentence: String,
}

#[derive(Debug, Default)]
struct Entry {
    told: Told,
    now: Option<Now>,
    /// What is being told. It is told again until it is known to be there, whatever comes to be meanwhile: else the
    /// world might be left with a state that was told in an answer that got lost, and is no longer so.
    attempt: Option<Notice>,
    waits: bool,
}

impl Entry {
    /// Whether the state that is now, if it is `state`, has to be told, or may have to be later.
    fn may_tell(&self, state: &State) -> bool {
        *state != State::Silent
            && (self.attempt.is_some() || self.told.state.as_ref() != Some(state))
    }

    fn is_due(&self) -> bool {
        let now = self.now.as_ref();
        self.attempt.is_some() || now.is_some_and(|now| self.may_tell(&now.state))
    }

    /// Takes what needs no telling as told.
    fn settle(&mut self) {
        if self.attempt.is_none()
            && self
                .now
                .as_ref()
                .is_some_and(|now| now.state == State::Silent)
        {
            self.told.state = Some(State::Silent);
        }
    }

    /// What is to be told, which from now on is being told.
    fn attempt(&mut self, subject: &Subject, at: Timestamp) -> Option<Notice> {
        if self.attempt.is_none() && self.is_due() {
            let now = self.now.as_ref()?;
            self.attempt = Some(Notice {
                subject: subject.clone(),
                number: self.told.number.saturating_add(1),
                state: now.state.clone(),
                sentence: now.sentence.clone(),
                at,
            });
        }
        self.attempt.clone()
    }

    fn resolve(&mut self, notice: &Notice, resolution: Resolution) {
        // A call of an earlier term ended late, and says nothing of what is being told now.
        let is_of_now = |attempt: &mut Notice| {
            (attempt.number, &attempt.state) == (notice.number, &notice.state)
        };
        if resolution == Resolution::Again {
            return;
        }
        let Some(attempt) = self.attempt.take_if(is_of_now) else {
            return;
        };
        if resolution == Resolution::Told {
            self.told.number = attempt.number;
        }
        self.told.state = Some(attempt.state);
        self.settle();
    }
}

/// How many nodes have their turn before a Service has: as many as a Service's sentence names.
const NODES_IN_A_ROW: usize = words::NAMED;

/// Those who wait, nodes first, for they are why Services lose their hints.
#[derive(Debug, Default)]
struct Line {
    nodes: VecDeque<Subject>,
    services: VecDeque<Subject>,
    /// How many nodes had their turn since a Service had.
    nodes_in_a_row: usize,
}

impl Line {
    fn len(&self) -> usize {
        self.nodes.len() + self.services.len()
    }

    fn push(&mut self, subject: Subject) {
        match subject {
            Subject::Node(_) => self.nodes.push_back(subject),
            Subject::Service(_) => self.services.push_back(subject),
        }
    }

    fn pop(&mut self) -> Option<Subject> {
        let nodes_go_on = self.nodes_in_a_row < NODES_IN_A_ROW || self.services.is_empty();
        if nodes_go_on && let Some(node) = self.nodes.pop_front() {
            self.nodes_in_a_row += 1;
            return Some(node);
        }
        self.nodes_in_a_row = 0;
        self.services.pop_front()
    }

    /// A node could not be told of: a Service has its turn before it is tried again.
    fn let_a_service_by(&mut self) {
        self.nodes_in_a_row = NODES_IN_A_ROW;
    }
}

/// All objects of which there is something to tell or was. Until [`Self::learn`] nobody waits.
#[derive(Debug, Default)]
pub(super) struct Transitions {
    entries: HashMap<Subject, Entry>,
    line: Line,
    learned: bool,
    /// How often another leadership began.
    terms: u64,
}

impl Transitions {
    /// Takes a state as told where that is not known: see [`Events::assume`](super::Events::assume).
    pub(super) fn assume(&mut self, subject: Subject, state: State) {
        let entry = self.entries.entry(subject).or_default();
        entry.told.state.get_or_insert(state);
    }

    /// Takes in the state of an object: see [`Events::observe`](super::Events::observe).
    pub(super) fn observe(
        &mut self,
        subject: Subject,
        state: State,
        sentence: impl FnOnce() -> String,
    ) {
        if state == State::Silent && !self.entries.contains_key(&subject) {
            return;
        }
        let entry = self.entries.entry(subject.clone()).or_default();
        // What was told is known for sure when it was read.
        let wanted = entry.may_tell(&state) || !self.learned && state != State::Silent;
        let sentence = if wanted { sentence() } else { String::new() };
        entry.now = Some(Now { state, sentence });
        entry.settle();
        if self.learned {
            self.enqueue(subject);
        }
    }

    /// Takes in the nodes that make capacity insufficient, which are all there are.
    pub(super) fn observe_nodes(&mut self, insufficient: &[InsufficientNode], standing: bool) {
        let named: HashSet<&str> = insufficient.iter().map(|node| &*node.name).collect();
        let is_well = |subject: &&Subject| match subject {
            Subject::Node(name) => !named.contains(&**name),
            Subject::Service(_) => false,
        };
        let well: Vec<Subject> = self.entries.keys().filter(is_well).cloned().collect();
        // A node that comes again goes on with its number, unless so many come and go that they can't all be kept.
        let forget = well.len() > MOST_WAITING;
        for subject in well {
            if forget {
                self.entries.remove(&subject);
            } else {
                self.observe(subject, State::Silent, String::new);
            }
        }
        for node in insufficient {
            let lacks: Vec<&str> = node.missing.iter().map(Missing::word).collect();
            let state = State::Disabled(lacks.join("+").into());
            let sentence = || Reason::insufficient_node_info(slice::from_ref(node)).message();
            let subject = Subject::Node(node.name.clone());
            if standing {
                self.assume(subject.clone(), state.clone());
            }
            self.observe(subject, state, sentence);
        }
    }

    /// Forgets the Services that are no longer there.
    pub(super) fn keep_services(&mut self, exists: impl Fn(&ServiceSet) -> bool) {
        self.entries.retain(|subject, _| match subject {
            Subject::Node(_) => true,
            Subject::Service(service) => exists(service),
        });
    }

    /// Which term this is.
    pub(super) fn term(&self) -> u64 {
        self.terms
    }

    /// Takes in all Events that stand, if the term in which they were asked for goes on. What they say was told counts
    /// more than what is remembered.
    pub(super) fn learn(&mut self, term: u64, posted: Vec<Posted>) {
        if term != self.terms {
            return;
        }
        for (subject, last) in last_of_each(posted) {
            let entry = self.entries.entry(subject).or_default();
            entry.told = Told {
                number: last.number,
                state: Some(last.state),
            };
            entry.settle();
        }
        self.learned = true;
        let mut subjects: Vec<Subject> = self.entries.keys().cloned().collect();
        subjects.sort_unstable();
        for subject in subjects {
            self.enqueue(subject);
        }
    }

    /// Another replica leads now: what was told so far is worth remembering, what is so now is not.
    pub(super) fn step_down(&mut self) {
        self.terms += 1;
        self.learned = false;
        self.line = Line::default();
        for entry in self.entries.values_mut() {
            entry.now = None;
            entry.attempt = None;
            entry.waits = false;
        }
    }

    /// Whether anybody waits to be told of, or did and no longer has to.
    pub(super) fn is_waiting(&self) -> bool {
        self.line.len() > 0
    }

    /// The next thing to tell, which has to be [resolved](Self::resolve) before the next is asked for.
    pub(super) fn next(&mut self, at: Timestamp) -> Option<Notice> {
        while let Some(subject) = self.line.pop() {
            let Some(entry) = self.entries.get_mut(&subject) else {
                continue;
            };
            entry.waits = false;
            if let Some(notice) = entry.attempt(&subject, at) {
                return Some(notice);
            }
        }
        None
    }

    /// What came of telling the last thing of an object.
    pub(super) fn resolve(&mut self, notice: &Notice, resolution: Resolution) {
        if let Some(entry) = self.entries.get_mut(&notice.subject) {
            entry.resolve(notice, resolution);
            if resolution == Resolution::Again && matches!(notice.subject, Subject::Node(_)) {
                self.line.let_a_service_by();
            }
            self.enqueue(notice.subject.clone());
        }
    }

    fn enqueue(&mut self, subject: Subject) {
        let Some(entry) = self.entries.get_mut(&subject) else {
            return;
        };
        if entry.waits || !entry.is_due() {
            return;
        }
        if self.line.len() < MOST_WAITING {
            entry.waits = true;
            self.line.push(subject);
        } else if entry.attempt.is_none() {
            entry.now = None;
        }
    }
}

/// Of Events with one number, which replicas that led at once may have posted, the later counts.
fn last_of_each(posted: Vec<Posted>) -> HashMap<Subject, Posted> {
    let mut last: HashMap<Subject, Posted> = HashMap::new();
    for event in posted {
        let known = last.get(&event.subject);
        if known.is_none_or(|known| (known.number, known.at) < (event.number, event.at)) {
            last.insert(event.subject.clone(), event);
        }
    }
    last
}

#[cfg(test)]
pub(super) mod tests;
