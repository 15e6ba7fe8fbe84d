use super::*;

const SECOND: Duration = Duration::from_secs(1);
const WAITS: Waits = Waits {
    gather: SECOND,
    quiet: Duration::from_secs(3),
    quiet_at_most: Duration::from_secs(30),
};

/// An agenda with a clock, and slices of Services that differ from a fresh decision whenever they are looked at.
struct Desk {
    agenda: Agenda,
    began: Instant,
    now: Instant,
    drifted: HashMap<Arc<str>, Vec<&'static str>>,
}

fn name(service: &str) -> Arc<str> {
    Arc::from(service)
}

fn version(text: &str) -> Key {
    Key::of(text)
}

fn stored(text: &str) -> Outcome {
    Outcome::Stored(version(text))
}

impl Desk {
    /// With these slices of `shop/web` drifted.
    fn new(drifted: &[&'static str]) -> Self {
        let now = Instant::now();
        Self {
            agenda: Agenda::new(WAITS),
            began: now,
            now,
            drifted: HashMap::from([(name("shop/web"), drifted.to_vec())]),
        }
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.now = self.began + Duration::from_secs_f64(seconds);
        self
    }

    fn written(&mut self, slice: &str, by: &str) {
        self.written_at_once(slice, &[by]);
    }

    /// Several versions that are told of together.
    fn written_at_once(&mut self, slice: &str, by: &[&str]) {
        let written = by.iter().map(|by| (slice.into(), Some(version(by))));
        let change = ServiceChange {
            written: written.collect(),
        };
        self.agenda
            .note_service(&name("shop/web"), &change, self.now);
    }

    fn service_changed(&mut self) {
        let change = ServiceChange::default();
        self.agenda
            .note_service(&name("shop/web"), &change, self.now);
    }

    fn look_at_all(&mut self) {
        self.agenda
            .look_at_all(self.drifted.keys().cloned().collect::<Vec<_>>(), self.now);
    }

    fn mend(&mut self, slice: &str) {
        for slices in self.drifted.values_mut() {
            slices.retain(|drifted| *drifted != slice);
        }
    }

    /// Looks at what is due; how many Services that were.
    fn look(&mut self) -> usize {
        self.agenda.take_retries(self.now);
        let mut looks = 0;
        while let Some((service, _)) = self.agenda.next_look(self.now) {
            looks += 1;
            let slices = self.drifted.get(&service).into_iter().flatten();
            let drifted: Vec<_> = slices
                .map(|slice| DriftedSlice {
                    name: (*slice).into(),
                    was_bypassed: false,
                })
                .collect();
            self.agenda.note_look(&service, &drifted, self.now);
        }
        looks
    }

    /// Looks at what is due and takes the slices that may be written.
    fn take(&mut self) -> Vec<String> {
        self.look();
        std::iter::from_fn(|| self.agenda.next_slice())
            .map(|(_, slice)| slice.to_string())
            .collect()
    }

    fn outcome(&mut self, slice: &str, outcome: Outcome) {
        let slice = (name("shop/web"), slice.into());
        self.agenda.note_outcome(&slice, outcome, self.now);
    }

    /// The second at which the next slice may be written, when nothing happens meanwhile.
    fn next_taken_at(&mut self) -> Option<f64> {
        loop {
            if !self.take().is_empty() {
                return Some((self.now - self.began).as_secs_f64());
            }
            self.now = self.agenda.wakes_at()?;
        }
    }

    /// Goes through all that is still due.
    fn run_out(&mut self) {
        while let Some(at) = self.agenda.wakes_at() {
            self.now = at.max(self.now);
            assert_eq!(self.take(), Vec::<String>::new());
        }
    }

    fn assert_empty(&self) {
        let agenda = &self.agenda;
        assert!(agenda.services.is_empty(), "{agenda:#?}");
        assert!(agenda.looks.is_empty(), "{agenda:#?}");
        assert!(agenda.retries.is_empty(), "{agenda:#?}");
        assert!(agenda.queue.turns.is_empty(), "{agenda:#?}");
        assert_eq!(agenda.all_at, None);
    }
}

#[test]
fn our_own_write_is_nobody_elses_when_the_answer_comes_first() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.outcome("a", stored("2"));
    assert_eq!(desk.at(0.1).take(), Vec::<String>::new(), "not shown yet");
    desk.mend("a");
    desk.at(0.2).written("a", "2");
    assert_eq!(desk.take(), ["b"], "without a quiet time");
}

#[test]
fn our_own_write_is_nobody_elses_when_the_watch_shows_it_first() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.mend("a");
    desk.at(0.1).written("a", "2");
    desk.at(0.2).outcome("a", stored("2"));
    assert_eq!(desk.take(), ["b"], "without a quiet time");
}

#[test]
fn a_write_of_others_beside_ours_is_seen() {
    for before_the_answer in [true, false] {
        let mut desk = Desk::new(&["a", "b"]);
        desk.look_at_all();
        assert_eq!(desk.take(), ["a"]);
        if before_the_answer {
            desk.at(0.1).written("a", "1 of others");
            desk.written("a", "2");
            desk.outcome("a", stored("2"));
        } else {
            desk.at(0.1).outcome("a", stored("2"));
            desk.written("a", "3 of others, in the place of ours");
        }
        assert_eq!(desk.next_taken_at(), Some(3.1));
    }
}

#[test]
fn a_write_of_others_during_one_of_ours_that_changed_nothing_is_seen() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.at(0.5).written("a", "2");
    desk.outcome("a", Outcome::Unchanged);
    assert_eq!(desk.next_taken_at(), Some(3.5));
}

#[test]
fn a_write_of_others_to_a_sibling_of_what_is_in_flight_is_waited_out() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.mend("a");
    desk.at(0.1).written("b", "of others");
    desk.written("a", "2");
    desk.at(0.2).outcome("a", stored("2"));
    assert_eq!(desk.next_taken_at(), Some(3.1));
}

#[test]
fn slices_are_left_alone_until_nobody_wrote_them_for_a_while() {
    let mut desk = Desk::new(&["a"]);
    for (at, by) in [(0.0, "1"), (2.0, "2"), (4.0, "3")] {
        desk.at(at).written("a", by);
    }
    assert_eq!(desk.next_taken_at(), Some(7.0));
}

#[test]
fn a_retry_that_is_due_waits_for_others_too() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.outcome("a", Outcome::Unchanged);
    desk.at(0.9).written("b", "of others");
    assert_eq!(desk.next_taken_at(), Some(3.9));
}

#[test]
fn writes_that_do_not_end_are_waited_for_half_a_minute() {
    let mut desk = Desk::new(&["a"]);
    for second in 0..30 {
        desk.at(f64::from(second)).written("a", &second.to_string());
        assert_eq!(desk.take(), Vec::<String>::new());
    }
    assert_eq!(desk.next_taken_at(), Some(30.0));
}

#[test]
fn a_slice_keeps_its_turn_while_others_write_on_and_on() {
    let mut desk = Desk::new(&["a"]);
    let others: Vec<Arc<str>> = (0..40).map(|i| name(&format!("shop/other-{i}"))).collect();
    for other in &others {
        desk.drifted.insert(other.clone(), vec!["o"]);
    }
    let mut taken = Vec::new();
    for second in 0..80 {
        desk.at(f64::from(second)).written("a", &second.to_string());
        if second == 30 {
            desk.agenda.look_at_all(others.clone(), desk.now);
        }
        desk.look();
        // One a second, and none of them comes to anything.
        if let Some(slice) = desk.agenda.next_slice() {
            taken.push(slice.0.to_string());
        }
    }
    assert_eq!(taken.len(), 41, "{taken:?}");
    assert!(taken.contains(&"shop/web".to_owned()), "{taken:?}");
}

#[test]
fn looking_at_all_leaves_turns_as_they_are() {
    let mut desk = Desk::new(&["a"]);
    desk.look_at_all();
    desk.look();
    desk.drifted.insert(name("shop/api"), vec!["b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a", "b"]);
}

#[test]
fn writes_that_were_waited_out_are_waited_for_again_after_a_pause() {
    let mut desk = Desk::new(&[]);
    for second in 0..=30 {
        desk.at(f64::from(second)).written("a", &second.to_string());
        desk.look();
    }
    assert_eq!(desk.at(33.0).look(), 1);
    desk.assert_empty();
    desk.drifted.insert(name("shop/web"), vec!["a"]);
    desk.at(40.0).written("a", "late");
    assert_eq!(desk.next_taken_at(), Some(43.0));
}

#[test]
fn what_is_undone_again_and_again_is_mended_less_and_less_often() {
    let mut desk = Desk::new(&["a"]);
    desk.look_at_all();
    let mut times = Vec::new();
    for round in 0..8 {
        times.push(desk.next_taken_at().expect("it is mended again"));
        let ours = format!("ours {round}");
        desk.outcome("a", stored(&ours));
        desk.mend("a");
        desk.written("a", &ours);
        assert_eq!(desk.take(), Vec::<String>::new());
        desk.drifted.insert(name("shop/web"), vec!["a"]);
        desk.written("a", &format!("theirs {round}"));
    }
    let waits: Vec<f64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(waits, [3.0, 3.0, 4.0, 8.0, 16.0, 32.0, 60.0]);
    desk.drifted.clear();
    desk.run_out();
    desk.assert_empty();
}

#[test]
fn what_drifts_again_with_nobody_having_undone_it_is_mended_at_once() {
    let mut desk = Desk::new(&["a"]);
    for second in 0..5 {
        desk.at(f64::from(second)).look_at_all();
        assert_eq!(desk.take(), ["a"]);
        let ours = format!("ours {second}");
        desk.outcome("a", stored(&ours));
        desk.mend("a");
        desk.written("a", &ours);
        desk.look();
        desk.drifted.insert(name("shop/web"), vec!["a"]);
    }
}

#[test]
fn a_write_of_others_before_ours_that_is_told_of_together_with_it_is_seen() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.mend("a");
    desk.at(0.1).outcome("a", stored("2"));
    desk.written_at_once("a", &["1 of others", "2"]);
    assert_eq!(desk.next_taken_at(), Some(3.1));
}

#[test]
fn changes_of_a_service_are_gathered() {
    let mut desk = Desk::new(&["a"]);
    desk.service_changed();
    desk.at(0.7).service_changed();
    assert_eq!(desk.next_taken_at(), Some(1.0));
}

#[test]
fn a_change_of_a_service_does_not_cut_a_quiet_time_short() {
    let mut desk = Desk::new(&["a"]);
    desk.written("a", "1");
    desk.service_changed();
    assert_eq!(desk.next_taken_at(), Some(3.0));
}

/// When all are looked at, given the times of changes of capacity.
fn looked_at_all_at(changes: impl IntoIterator<Item = f64>) -> f64 {
    let mut desk = Desk::new(&[]);
    for at in changes {
        desk.at(at);
        desk.agenda.note_capacity(desk.now);
        assert!(!desk.agenda.take_all(desk.now));
    }
    let due = desk.agenda.wakes_at().expect("a look is due");
    assert!(desk.agenda.take_all(due));
    assert!(!desk.agenda.take_all(due), "once is enough");
    (due - desk.began).as_secs_f64()
}

#[test]
fn changes_of_capacity_are_gathered_until_they_pause_or_go_on_for_too_long() {
    let same = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert!(same(looked_at_all_at([0.0]), 1.0));
    assert!(same(looked_at_all_at([0.0, 0.5, 1.2]), 2.2));
    let on_and_on = (0..10).map(|tick| f64::from(tick) * 0.5);
    assert!(same(looked_at_all_at(on_and_on), 5.0));
}

#[test]
fn what_does_not_change_is_tried_less_and_less_often_and_then_no_more() {
    let mut desk = Desk::new(&["a"]);
    desk.look_at_all();
    let mut times = Vec::new();
    while let Some(at) = desk.next_taken_at() {
        times.push(at);
        desk.outcome("a", Outcome::Unchanged);
    }
    let waits: Vec<f64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(waits, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]);
    assert_eq!((desk.agenda.waiting(), desk.agenda.parked()), (0, 1));
}

/// A desk at rest with a slice that was given up.
fn parked() -> Desk {
    let mut desk = Desk::new(&["a"]);
    desk.look_at_all();
    while desk.next_taken_at().is_some() {
        desk.outcome("a", Outcome::Unchanged);
    }
    assert_eq!(desk.agenda.parked(), 1);
    desk.began = desk.now;
    desk
}

#[test]
fn what_was_given_up_is_tried_again_when_others_write_it() {
    let mut desk = parked();
    desk.written("a", "of others");
    assert_eq!((desk.agenda.waiting(), desk.agenda.parked()), (1, 0));
    assert_eq!(desk.next_taken_at(), Some(3.0));
}

#[test]
fn what_was_given_up_is_tried_again_when_its_service_changes() {
    let mut desk = parked();
    desk.service_changed();
    assert_eq!(desk.next_taken_at(), Some(1.0));
}

#[test]
fn what_was_given_up_is_tried_again_when_all_are_looked_at() {
    let mut desk = parked();
    desk.look_at_all();
    assert_eq!(desk.next_taken_at(), Some(0.0));
}

#[test]
fn a_service_has_one_slice_in_flight_and_others_go_on() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.drifted.insert(name("shop/db"), vec!["c"]);
    desk.look_at_all();
    let mut taken = desk.take();
    taken.sort();
    assert_eq!(taken, ["a", "c"]);
    assert_eq!(desk.at(100.0).take(), Vec::<String>::new());
    desk.mend("a");
    desk.written("a", "2");
    desk.outcome("a", stored("2"));
    assert_eq!(desk.take(), ["b"]);
}

#[test]
fn a_stored_write_that_the_watch_never_shows_is_not_awaited_for_ever() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.outcome("a", stored("2"));
    desk.mend("a");
    assert_eq!(desk.next_taken_at(), Some(5.0));
}

#[test]
fn a_slice_that_is_gone_is_forgotten() {
    let mut desk = Desk::new(&["a"]);
    desk.look_at_all();
    assert_eq!(desk.take(), ["a"]);
    desk.outcome("a", Outcome::Gone);
    desk.mend("a");
    desk.run_out();
    desk.assert_empty();
}

#[test]
fn nothing_is_left_at_rest() {
    for shown in [true, false] {
        let mut desk = Desk::new(&["a", "b"]);
        desk.agenda.note_capacity(desk.now);
        desk.at(1.0);
        assert!(desk.agenda.take_all(desk.now));
        desk.look_at_all();
        for slice in ["a", "b"] {
            assert!(desk.next_taken_at().is_some());
            desk.mend(slice);
            desk.outcome(slice, stored(slice));
            if shown {
                desk.written(slice, slice);
            }
        }
        desk.written("a", "of others");
        desk.service_changed();
        desk.run_out();
        desk.assert_empty();
    }
}

#[test]
fn what_nobody_here_may_write_does_not_pile_up() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    desk.look();
    assert_eq!(desk.agenda.waiting(), 2);
    for slice in ["a", "b"] {
        desk.mend(slice);
        desk.written(slice, "of the one that leads");
    }
    desk.at(3.0).look();
    desk.assert_empty();
}

#[test]
fn a_slice_that_is_mended_by_its_siblings_write_leaves_the_queue() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.look_at_all();
    desk.look();
    assert!(desk.agenda.next_slice().is_some(), "and b waits");
    desk.mend("a");
    desk.mend("b");
    desk.written("a", "2");
    desk.outcome("a", stored("2"));
    desk.look();
    assert!(!desk.agenda.has_queue());
    desk.run_out();
    desk.assert_empty();
}
