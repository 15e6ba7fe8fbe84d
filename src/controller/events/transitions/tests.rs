use std::collections::BTreeMap;

use k8s_openapi::api::events::v1::Event;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::record;
use super::*;
use crate::cluster::slice::AddressType;

/// The same ones in every run.
pub(in super::super) fn same_cases() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

const ENABLED: State = State::Enabled;

fn disabled(word: &'static str) -> State {
    State::Disabled(word.into())
}

fn set(name: &str, address_type: AddressType) -> ServiceSet {
    ServiceSet {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-of-{name}").into(),
        address_type,
    }
}

fn web() -> Subject {
    Subject::Service(set("web", AddressType::Ipv4))
}

fn insufficient(name: &str, missing: Vec<Missing>) -> InsufficientNode {
    InsufficientNode {
        name: name.into(),
        missing,
    }
}

/// What the API server stores, in the order in which it came.
#[derive(Default)]
struct ApiServer {
    names: HashSet<String>,
    events: Vec<Event>,
}

impl ApiServer {
    fn create(&mut self, notice: &Notice) {
        let event = record::event(notice, "zonewise-0");
        let name = event.metadata.name.clone().expect("an Event has a name");
        if self.names.insert(name) {
            self.events.push(event);
        }
    }

    fn posted(&self) -> Vec<Posted> {
        self.events.iter().filter_map(Posted::read).collect()
    }

    /// What stands of one object, in order.
    fn story_of(&self, subject: &Subject) -> Vec<State> {
        let of_subject = |posted: Posted| (posted.subject == *subject).then_some(posted.state);
        self.posted().into_iter().filter_map(of_subject).collect()
    }
}

/// What may happen to a call.
#[derive(Debug, Clone, Copy)]
enum Call {
    Answered,
    /// It is stored, and the answer is lost.
    AnswerLost,
    /// It never gets there.
    Lost,
}

/// A replica that leads.
struct Leader {
    transitions: Transitions,
    clock: i64,
}

impl Leader {
    fn begin(server: &ApiServer) -> Self {
        let mut transitions = Transitions::default();
        transitions.learn(0, server.posted());
        Self {
            transitions,
            clock: i64::try_from(server.events.len()).unwrap(),
        }
    }

    fn sees(&mut self, state: &State) {
        self.sees_of(web(), state);
    }

    fn sees_of(&mut self, subject: Subject, state: &State) {
        let sentence = || format!("it is {state:?}");
        self.transitions.observe(subject, state.clone(), sentence);
    }

    /// Tells one thing, where there is one to tell.
    fn tells(&mut self, server: &mut ApiServer, call: Call) -> bool {
        self.clock += 1;
        let at = Timestamp::from_second(self.clock).unwrap();
        let Some(notice) = self.transitions.next(at) else {
            return false;
        };
        assert_eq!(notice.sentence, format!("it is {:?}", notice.state));
        if !matches!(call, Call::Lost) {
            server.create(&notice);
        }
        let resolution = match call {
            Call::Answered => Resolution::Told,
            Call::AnswerLost | Call::Lost => Resolution::Again,
        };
        self.transitions.resolve(&notice, resolution);
        true
    }

    fn tells_all(&mut self, server: &mut ApiServer) {
        while self.tells(server, Call::Answered) {}
    }
}

#[test]
fn only_transitions_are_told() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    for state in [
        &ENABLED,
        &ENABLED,
        &disabled("A"),
        &disabled("A"),
        &disabled("B"),
        &ENABLED,
        &disabled("A"),
    ] {
        leader.sees(state);
        leader.tells_all(&mut server);
    }
    assert_eq!(
        server.story_of(&web()),
        [
            ENABLED,
            disabled("A"),
            disabled("B"),
            ENABLED,
            disabled("A")
        ]
    );
}

#[test]
fn what_passes_before_it_is_told_is_not_told() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    leader.sees(&ENABLED);
    leader.tells_all(&mut server);
    leader.sees(&disabled("A"));
    leader.sees(&disabled("B"));
    leader.tells_all(&mut server);
    leader.sees(&disabled("A"));
    leader.sees(&disabled("B"));
    leader.tells_all(&mut server);
    assert_eq!(server.story_of(&web()), [ENABLED, disabled("B")]);
}

#[test]
fn nothing_is_told_of_hints_that_nobody_asks_for_any_more() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    for state in [ENABLED, State::Silent, ENABLED] {
        leader.sees(&state);
        leader.tells_all(&mut server);
    }
    assert_eq!(server.story_of(&web()), [ENABLED, ENABLED]);
    leader.sees(&disabled("A"));
    leader.sees(&State::Silent);
    leader.tells_all(&mut server);
    assert_eq!(server.story_of(&web()).len(), 2);
}

#[test]
fn a_standing_state_is_news_only_where_an_event_tells_otherwise() {
    let mut server = ApiServer::default();
    let standing = |server: &mut ApiServer| {
        let mut leader = Leader {
            transitions: Transitions::default(),
            clock: 100,
        };
        let told = || format!("it is {ENABLED:?}");
        leader.transitions.assume(web(), ENABLED);
        leader.transitions.observe(web(), ENABLED, told);
        leader.transitions.learn(0, server.posted());
        leader.tells_all(server);
        leader
    };
    let mut leader = standing(&mut server);
    assert_eq!(server.story_of(&web()), []);
    leader.sees(&disabled("A"));
    leader.tells_all(&mut server);
    standing(&mut server);
    assert_eq!(server.story_of(&web()), [disabled("A"), ENABLED]);
}

#[test]
fn what_is_observed_before_the_events_are_read_waits_for_them() {
    let mut server = ApiServer::default();
    let mut first = Leader::begin(&server);
    first.sees(&disabled("A"));
    first.tells_all(&mut server);
    for (state, news) in [
        (disabled("A"), 0),
        (State::Silent, 0),
        (ENABLED, 1),
        (ENABLED, 0),
    ] {
        let before = server.events.len();
        let mut next = Leader {
            transitions: Transitions::default(),
            clock: 100,
        };
        next.sees(&state);
        assert!(!next.tells(&mut server, Call::Answered), "{state:?}");
        next.transitions.learn(0, server.posted());
        next.tells_all(&mut server);
        assert_eq!(server.events.len() - before, news, "{state:?}");
    }
}

#[test]
fn a_replica_that_leads_again_remembers_what_it_told() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    leader.sees(&disabled("A"));
    leader.tells_all(&mut server);
    leader.transitions.step_down();
    assert!(!leader.tells(&mut server, Call::Answered));
    // Its Event is gone when it leads again.
    let mut empty = ApiServer::default();
    leader.transitions.learn(1, empty.posted());
    leader.sees(&disabled("A"));
    assert!(!leader.tells(&mut empty, Call::Answered));
}

#[test]
fn what_was_observed_under_an_earlier_leadership_is_not_told() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    leader.sees(&ENABLED);
    leader.transitions.step_down();
    leader.transitions.learn(1, Vec::new());
    assert!(!leader.tells(&mut server, Call::Answered));
}

#[test]
fn what_an_earlier_term_asked_or_told_says_nothing_of_this_one() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    leader.sees(&disabled("A"));
    let late = leader.transitions.next(Timestamp::UNIX_EPOCH).unwrap();
    leader.transitions.step_down();
    leader.sees(&ENABLED);
    leader.transitions.learn(0, Vec::new());
    assert!(!leader.tells(&mut server, Call::Answered), "not learned");
    server.create(&late);
    leader.transitions.learn(1, server.posted());
    let notice = leader.transitions.next(Timestamp::UNIX_EPOCH).unwrap();
    leader.transitions.resolve(&late, Resolution::Told);
    leader.transitions.resolve(&notice, Resolution::Again);
    leader.tells_all(&mut server);
    assert_eq!(server.story_of(&web()), [disabled("A"), ENABLED]);
}

#[test]
fn a_state_whose_answer_was_lost_is_not_left_standing() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    leader.sees(&ENABLED);
    leader.tells_all(&mut server);
    leader.sees(&disabled("A"));
    leader.tells(&mut server, Call::AnswerLost);
    leader.sees(&ENABLED);
    leader.tells_all(&mut server);
    assert_eq!(server.story_of(&web()), [ENABLED, disabled("A"), ENABLED]);
}

#[test]
fn an_object_waits_in_one_place_however_often_it_changes() {
    let mut leader = Leader::begin(&ApiServer::default());
    for _ in 0..10 {
        leader.sees(&ENABLED);
        leader.sees(&disabled("A"));
    }
    assert_eq!(leader.transitions.line.len(), 1);
}

#[test]
fn what_is_left_out_is_not_told_again_until_it_changes() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    leader.sees(&disabled("A"));
    let notice = leader.transitions.next(Timestamp::UNIX_EPOCH).unwrap();
    leader.transitions.resolve(&notice, Resolution::LeftOut);
    leader.sees(&disabled("A"));
    assert!(!leader.tells(&mut server, Call::Answered));
    leader.sees(&disabled("B"));
    let next = leader.transitions.next(Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((next.number, next.state), (1, disabled("B")));
}

#[test]
fn nodes_are_told_of_first_and_say_what_they_lack() {
    let mut leader = Leader::begin(&ApiServer::default());
    leader.sees(&disabled("InsufficientNodeInfo"));
    let nodes = [insufficient("n7", vec![Missing::Zone, Missing::Cpu])];
    leader.transitions.observe_nodes(&nodes, false);
    let first = leader.transitions.next(Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(
        (first.subject, first.state),
        (Subject::Node("n7".into()), disabled("zone+cpu"))
    );
    assert!(
        first
            .sentence
            .starts_with("Node n7 has no label topology.kubernetes.io/zone and no allocatable CPU"),
        "{}",
        first.sentence
    );
    let second = leader.transitions.next(Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(second.subject, web());
}

#[test]
fn many_nodes_do_not_keep_services_from_their_turn() {
    let mut leader = Leader::begin(&ApiServer::default());
    leader.sees(&disabled("InsufficientNodeInfo"));
    let nodes: Vec<_> = (0..5)
        .map(|i| insufficient(&format!("n{i}"), vec![Missing::Zone]))
        .collect();
    leader.transitions.observe_nodes(&nodes, false);
    let next = || leader.transitions.next(Timestamp::UNIX_EPOCH);
    let told_of: Vec<_> = std::iter::from_fn(next)
        .map(|notice| notice.subject.name().to_owned())
        .collect();
    assert_eq!(told_of, ["n0", "n1", "n2", "web", "n3", "n4"]);
}

#[test]
fn a_node_that_is_assumed_to_be_told_of_is_no_news() {
    let mut transitions = Transitions::default();
    let nodes = ["n1", "n2"].map(|name| insufficient(name, vec![Missing::Zone]));
    transitions.observe_nodes(&nodes[..1], true);
    transitions.learn(0, Vec::new());
    transitions.observe_nodes(&nodes, false);
    let notice = transitions.next(Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(notice.subject.name(), "n2");
    transitions.resolve(&notice, Resolution::Told);
    assert_eq!(transitions.next(Timestamp::UNIX_EPOCH), None);
}

#[test]
fn a_node_that_can_not_be_told_of_holds_up_no_service() {
    let mut leader = Leader::begin(&ApiServer::default());
    leader.sees(&ENABLED);
    leader.sees_of(
        Subject::Service(set("zz", AddressType::Ipv4)),
        &disabled("A"),
    );
    let nodes = [insufficient("n7", vec![Missing::Zone])];
    leader.transitions.observe_nodes(&nodes, false);
    let mut told_of = Vec::new();
    for _ in 0..5 {
        let notice = leader.transitions.next(Timestamp::UNIX_EPOCH).unwrap();
        let is_node = matches!(notice.subject, Subject::Node(_));
        let resolution = if is_node {
            Resolution::Again
        } else {
            Resolution::Told
        };
        leader.transitions.resolve(&notice, resolution);
        told_of.push(notice.subject.name().to_owned());
    }
    assert_eq!(told_of, ["n7", "web", "n7", "zz", "n7"]);
}

#[test]
fn a_node_that_lacks_its_zone_again_is_told_of_again() {
    let mut transitions = Transitions::default();
    transitions.learn(0, Vec::new());
    let nodes = [insufficient("n7", vec![Missing::Zone])];
    let mut numbers = Vec::new();
    for insufficient in [&nodes[..], &nodes, &[], &nodes] {
        transitions.observe_nodes(insufficient, false);
        while let Some(notice) = transitions.next(Timestamp::UNIX_EPOCH) {
            transitions.resolve(&notice, Resolution::Told);
            numbers.push(notice.number);
        }
    }
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn the_families_of_a_service_have_stories_of_their_own() {
    let mut server = ApiServer::default();
    let mut leader = Leader::begin(&server);
    let ipv6 = Subject::Service(set("web", AddressType::Ipv6));
    leader.sees(&ENABLED);
    leader.sees_of(ipv6.clone(), &ENABLED);
    leader.tells_all(&mut server);
    assert_eq!(
        (server.story_of(&web()), server.story_of(&ipv6)),
        (vec![ENABLED], vec![ENABLED])
    );
}

#[test]
fn the_line_is_bounded_and_what_is_passed_over_comes_later() {
    let mut transitions = Transitions::default();
    transitions.learn(0, Vec::new());
    let services = || (0..=MOST_WAITING).map(|i| set(&format!("s{i}"), AddressType::Ipv4));
    let mut told = 0;
    for still_to_tell in [MOST_WAITING, 1, 0] {
        for service in services() {
            transitions.observe(Subject::Service(service), ENABLED, String::new);
        }
        assert_eq!(transitions.line.len(), still_to_tell);
        while let Some(notice) = transitions.next(Timestamp::UNIX_EPOCH) {
            transitions.resolve(&notice, Resolution::Told);
            told += 1;
        }
    }
    assert_eq!(told, MOST_WAITING + 1);
    transitions.keep_services(|service| &*service.name == "s1");
    assert_eq!(transitions.entries.len(), 1);
}

#[test]
fn a_sentence_is_made_only_where_it_may_be_told() {
    let mut leader = Leader::begin(&ApiServer::default());
    leader.sees(&ENABLED);
    leader.tells_all(&mut ApiServer::default());
    leader
        .transitions
        .observe(web(), ENABLED, || panic!("nobody reads this"));
}

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    /// The state becomes another, and the leader sees it.
    Becomes(State),
    /// The leader tells something.
    Tells(Call),
    /// Another replica leads from now on; the old one told nothing since.
    AnotherLeads,
}

fn a_state() -> impl Strategy<Value = State> {
    prop_oneof![Just(ENABLED), Just(disabled("A")), Just(disabled("B")),]
}

fn a_step() -> impl Strategy<Value = Step> {
    let call = prop_oneof![
        3 => Just(Call::Answered),
        1 => Just(Call::AnswerLost),
        1 => Just(Call::Lost),
    ];
    prop_oneof![
        3 => a_state().prop_map(Step::Becomes),
        3 => call.prop_map(Step::Tells),
        1 => Just(Step::AnotherLeads),
    ]
}

proptest! {
    #![proptest_config(same_cases())]

    /// However calls get lost and leaders come and go, no two Events in a row tell the same, and the last tells what is.
    #[test]
    fn the_story_is_told_once_and_to_the_end(steps in prop::collection::vec(a_step(), 0..40), end in a_state()) {
        let mut server = ApiServer::default();
        let mut leader = Leader::begin(&server);
        let mut now = ENABLED;
        let mut lived = vec![now.clone()];
        leader.sees(&now);
        for step in steps {
            match step {
                Step::Becomes(state) => {
                    leader.sees(&state);
                    now = state;
                    lived.push(now.clone());
                }
                Step::Tells(call) => {
                    leader.tells(&mut server, call);
                }
                Step::AnotherLeads => {
                    leader = Leader::begin(&server);
                    leader.sees(&now);
                }
            }
        }
        leader.sees(&end);
        lived.push(end.clone());
        leader.tells_all(&mut server);
        let story = server.story_of(&web());
        prop_assert_eq!(story.last(), Some(&end));
        prop_assert!(story.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", story);
        // Nothing is told that was not so, nor in another order.
        let mut lived = lived.iter();
        prop_assert!(story.iter().all(|told| lived.any(|state| state == told)), "{:?}", story);
        let numbers: Vec<u64> = server.posted().iter().map(|posted| posted.number).collect();
        prop_assert_eq!(numbers, (1..=story.len() as u64).collect::<Vec<_>>());
    }

    /// Two replicas that both believe to lead and see the same post one Event for each transition.
    #[test]
    fn two_leaders_tell_each_transition_once(states in prop::collection::vec(a_state(), 1..20), first in prop::collection::vec(any::<bool>(), 20)) {
        let mut server = ApiServer::default();
        let (mut a, mut b) = (Leader::begin(&server), Leader::begin(&server));
        for (state, a_first) in states.iter().zip(first) {
            a.sees(state);
            b.sees(state);
            let order = if a_first { [&mut a, &mut b] } else { [&mut b, &mut a] };
            for leader in order {
                leader.tells_all(&mut server);
            }
        }
        let mut transitions = states;
        transitions.dedup();
        prop_assert_eq!(server.story_of(&web()), transitions);
    }

    /// Of many objects each has its own story, whatever the others do.
    #[test]
    fn objects_do_not_meet(steps in prop::collection::vec((0..4usize, a_state()), 1..60)) {
        let mut server = ApiServer::default();
        let mut leader = Leader::begin(&server);
        let mut stories: BTreeMap<usize, Vec<State>> = BTreeMap::new();
        let subject = |i: usize| Subject::Service(set(&format!("s{}", i / 2), [AddressType::Ipv4, AddressType::Ipv6][i % 2]));
        for (i, state) in steps {
            leader.sees_of(subject(i), &state);
            leader.tells_all(&mut server);
            stories.entry(i).or_default().push(state);
        }
        for (i, mut story) in stories {
            story.dedup();
            prop_assert_eq!(server.story_of(&subject(i)), story);
        }
    }
}
