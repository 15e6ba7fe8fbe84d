//! Never two leaders, and one again as soon as there may be: against a scripted API server whose ways fail.

mod log;
mod replica;

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use zonewise::controller::lease::LeaseSettings;

use crate::api_server::Fault;
use crate::api_server::lease::Store;
use crate::claims::Observer;
use crate::dice::Dice;
use crate::wait::eventually;
use replica::{Replica, quick, with_times};

fn observe(replicas: &[&Replica]) -> Observer {
    Observer::over(
        replicas
            .iter()
            .map(|replica| replica.claim.clone())
            .collect(),
    )
}

async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Waits until one of these leads; its number.
async fn a_leader(replicas: &[&Replica]) -> usize {
    eventually("one leads", async || {
        let leader = replicas.iter().position(|replica| replica.claim.holds());
        leader.ok_or_else(|| "nobody does".to_owned())
    })
    .await
}

async fn leads(replica: &Replica) {
    a_leader(&[replica]).await;
}

async fn leads_no_more(replica: &Replica) {
    eventually("it stops", async || {
        (!replica.claim.holds())
            .then_some(())
            .ok_or_else(|| "it leads".to_owned())
    })
    .await;
}

/// Two replicas of which one leads: that one first.
async fn leader_and_follower(store: &Store) -> [Replica; 2] {
    store.give_up();
    let [a, b] = ["a", "b"].map(|name| Replica::start(store, name));
    if a_leader(&[&a, &b]).await == 0 {
        [a, b]
    } else {
        [b, a]
    }
}

/// Times after which no test waits: what happens all the same does not wait for them.
fn slow(name: &str) -> LeaseSettings {
    with_times(name, [600_000, 300_000, 100].map(Duration::from_millis))
}

fn garbage() -> Fault {
    Fault::Answer(200, "<html>\u{1b}[2J".to_owned())
}

// === Without faults ===

#[tokio::test]
async fn the_first_of_two_makes_the_lease_and_keeps_it_in_one_term() {
    let store = Store::default();
    let [a, b] = ["a", "b"].map(|name| Replica::start(&store, name));
    let observer = observe(&[&a, &b]);
    let leader = [&a, &b][a_leader(&[&a, &b]).await];
    let lease = store.lease().expect("a Lease");
    assert_eq!(store.holder(), leader.identity);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 2);
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    let written = store.writes();
    eventually("renewals", async || {
        (store.writes() > written + 10)
            .then_some(())
            .ok_or_else(|| store.writes().to_string())
    })
    .await;
    assert_eq!(leader.claim.term(), Some(1));
    let renewed = store.lease().expect("a Lease");
    assert_eq!(renewed["spec"]["acquireTime"], lease["spec"]["acquireTime"]);
    assert_ne!(renewed["spec"]["renewTime"], lease["spec"]["renewTime"]);
    assert_eq!(observer.terms(), 1);
}

#[tokio::test]
async fn who_makes_the_lease_leads_when_every_claim_that_it_cannot_know_of_is_over() {
    let store = Store::default();
    let a = Replica::start_with(&store, slow("a"));
    eventually("renewals", async || {
        (store.writes() > 5)
            .then_some(())
            .ok_or_else(|| store.writes().to_string())
    })
    .await;
    assert_eq!(store.holder(), a.identity);
    assert!(!a.claim.holds());
    a.candidate.release().await;
    assert_eq!(store.holder(), a.identity, "others would lead at once");
}

#[tokio::test]
async fn two_replicas_of_one_name_are_two() {
    let store = Store::default();
    let [a, b] = [0, 1].map(|_| Replica::start(&store, "same"));
    let observer = observe(&[&a, &b]);
    a_leader(&[&a, &b]).await;
    pause(2_000).await;
    assert_eq!(observer.terms(), 1);
}

#[tokio::test]
async fn a_claim_counts_from_before_its_write_was_sent() {
    let store = Store::default();
    store.give_up();
    let a = Replica::start(&store, "a");
    a.way.set(Fault::Slow(300));
    let mut claim = a.claim.clone();
    claim.changed().await;
    a.kill();
    pause(700).await;
    assert!(!claim.holds(), "a second after the write was sent");
}

// === The leader goes ===

#[tokio::test]
async fn a_killed_leader_is_followed() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    first.kill();
    leads(&second).await;
    assert_eq!(
        store.lease().expect("a Lease")["spec"]["leaseTransitions"],
        2
    );
    assert_eq!(observer.terms(), 2);
}

#[tokio::test]
async fn a_claim_that_nobody_renews_wakes_by_the_clock_alone() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    let mut claim = a.claim.clone();
    claim.changed().await;
    assert_eq!(claim.term(), Some(1));
    a.kill();
    claim.changed().await;
    assert_eq!((claim.holds(), claim.term()), (false, None));
    tokio::spawn(a.candidate.clone().campaign());
    claim.changed().await;
    assert_eq!(claim.term(), Some(2));
}

/// While one way fails like this, its replica stops before the other leads; afterwards it follows.
async fn is_followed_when_cut_off_by(fault: Fault) {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    first.way.set(fault.clone());
    leads(&second).await;
    assert!(first.campaigns());
    first.way.set(Fault::Nothing);
    pause(1_000).await;
    assert!(!first.claim.holds());
    second.kill();
    leads(&first).await;
    assert_eq!(observer.terms(), 3, "{fault:?}");
    assert_eq!(first.claim.term(), Some(2));
}

#[tokio::test]
async fn a_leader_who_is_cut_off_is_followed() {
    let faults = [
        Fault::Refuse,
        Fault::Silence,
        Fault::status(409, "refused"),
        Fault::status(500, "refused"),
        Fault::status(403, "refused"),
        garbage(),
        Fault::Answer(200, "{}".to_owned()),
    ];
    join_all(faults.map(is_followed_when_cut_off_by)).await;
}

#[tokio::test]
async fn a_leader_whose_answers_are_lost_does_not_lead_by_writes_it_never_heard_of() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    first.way.set(Fault::AnswersLost);
    leads_no_more(&first).await;
    first.way.set(Fault::Nothing);
    a_leader(&[&first, &second]).await;
    assert_eq!(observer.terms(), 2);
}

#[tokio::test]
async fn slow_answers_make_no_two_leaders() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    for (milliseconds, length) in [(300, 2_000), (1_200, 3_000)] {
        first.way.set(Fault::Slow(milliseconds));
        second.way.set(Fault::Slow(milliseconds / 2));
        pause(length).await;
    }
    first.way.set(Fault::Nothing);
    second.way.set(Fault::Nothing);
    a_leader(&[&first, &second]).await;
    observer.terms();
}

#[tokio::test]
async fn when_everything_is_away_nobody_leads_until_it_is_back() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    for fault in [Fault::Refuse, Fault::Silence, garbage()] {
        first.way.set(fault.clone());
        second.way.set(fault);
        leads_no_more(&first).await;
        leads_no_more(&second).await;
        pause(1_000).await;
        assert!(!first.claim.holds() && !second.claim.holds());
        first.way.set(Fault::Nothing);
        second.way.set(Fault::Nothing);
        a_leader(&[&first, &second]).await;
    }
    assert_eq!(observer.terms(), 4);
}

// === The leader leaves ===

#[tokio::test]
async fn a_released_lease_is_taken_without_waiting() {
    let store = Store::default();
    store.give_up();
    let first = Replica::start_with(&store, slow("a"));
    leads(&first).await;
    let second = Replica::start_with(&store, slow("b"));
    let observer = observe(&[&first, &second]);
    first.candidate.release().await;
    leads(&second).await;
    pause(500).await;
    assert!(first.campaigns());
    assert_eq!(store.holder(), second.identity);
    assert_eq!(observer.terms(), 2);
}

#[tokio::test]
async fn the_lease_is_given_up_when_the_last_write_has_ended() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let write = first.claim.write().expect("it leads");
    let candidate = first.candidate.clone();
    let releasing = tokio::spawn(async move { candidate.release().await });
    leads_no_more(&first).await;
    assert!(first.claim.write().is_none(), "no other may begin");
    pause(300).await;
    assert_eq!(store.holder(), first.identity);
    drop(write);
    releasing.await.expect("it ends");
    assert_ne!(store.holder(), first.identity);
    leads(&second).await;
}

#[tokio::test]
async fn only_the_term_that_began_with_the_making_of_the_lease_is_the_first_ever() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    leads(&a).await;
    assert!(a.claim.is_first_ever());
    a.candidate.release().await;
    let b = Replica::start(&store, "b");
    leads(&b).await;
    assert!(!b.claim.is_first_ever());
}

#[tokio::test]
async fn who_does_not_lead_has_nothing_to_release() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    second.candidate.release().await;
    assert_eq!(store.holder(), first.identity);
    first.kill();
    pause(3_000).await;
    assert!(!second.claim.holds(), "it campaigns after its release");
}

#[tokio::test]
async fn a_release_that_nobody_answers_ends() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    first.way.set(Fault::Silence);
    first.candidate.release().await;
    assert!(!first.claim.holds());
    leads(&second).await;
    assert_eq!(observer.terms(), 2);
}

// === The Lease is touched by others ===

#[tokio::test]
async fn a_deleted_lease_is_made_anew_by_its_leader_in_the_same_term() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    assert!(store.delete());
    eventually("a Lease", async || {
        store.lease().map(drop).ok_or_else(|| "none".to_owned())
    })
    .await;
    leads(&first).await;
    assert_eq!(store.holder(), first.identity);
    assert_eq!(first.claim.term(), Some(1));
    assert_eq!(observer.terms(), 1);
}

#[tokio::test]
async fn a_lease_that_is_deleted_while_its_leader_is_cut_off_makes_no_second_leader() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    first.way.set(Fault::Silence);
    assert!(store.delete());
    leads(&second).await;
    assert_eq!(observer.terms(), 2);
}

#[tokio::test]
async fn a_lease_that_is_deleted_again_and_again_makes_no_second_leader() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    for _ in 0..60 {
        pause(50).await;
        store.delete();
    }
    a_leader(&[&first, &second]).await;
    observer.terms();
}

#[tokio::test]
async fn a_stranger_who_takes_the_lease_is_respected_for_as_long_as_it_renews() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    let stranger =
        |i: u32| json!({"holderIdentity": "stranger", "leaseDurationSeconds": 1, "renewTime": i});
    store.write(&stranger(0));
    leads_no_more(&first).await;
    for i in 1..40 {
        store.write(&stranger(i));
        pause(100).await;
        assert!(!first.claim.holds() && !second.claim.holds());
    }
    a_leader(&[&first, &second]).await;
    assert_eq!(observer.terms(), 2);
}

#[tokio::test]
async fn odd_leases_are_waited_for_and_taken() {
    let odd = [
        json!(null),
        json!([]),
        json!({}),
        json!({"holderIdentity": 7, "leaseDurationSeconds": "x", "renewTime": {}, "leaseTransitions": "y"}),
        json!({"holderIdentity": "\u{1b}[2J\n".repeat(10_000), "leaseDurationSeconds": -1, "leaseTransitions": -5}),
        json!({"holderIdentity": "x", "leaseDurationSeconds": 0.5, "renewTime": "9999-12-31T23:59:59.999999Z"}),
        json!({"holderIdentity": "x", "renewTime": "soon", "leaseTransitions": i64::MAX}),
        json!({"holderIdentity": "", "leaseDurationSeconds": 2, "leaseTransitions": i32::MAX}),
        // As a leader leaves it that gives it up, but by another hand.
        json!({"holderIdentity": "", "leaseDurationSeconds": 1}),
    ];
    join_all(odd.map(is_waited_for_and_taken)).await;
}

async fn is_waited_for_and_taken(spec: Value) {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    store.write(&spec);
    eventually("a candidate's lease", async || {
        let holder = store.holder();
        let taken = [&first, &second]
            .iter()
            .any(|replica| replica.identity == holder);
        taken
            .then_some(())
            .ok_or_else(|| format!("that of {holder:.20?}"))
    })
    .await;
    a_leader(&[&first, &second]).await;
    let transitions = store.lease().expect("a Lease")["spec"]["leaseTransitions"].as_i64();
    let fits = transitions.is_some_and(|number| (0..=i32::MAX.into()).contains(&number));
    assert!(fits, "{transitions:?} after {spec:.200}");
    observer.terms();
}

#[tokio::test]
async fn a_lease_of_ages_is_honoured_and_survived() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    let observer = observe(&[&first, &second]);
    store.write(&json!({"holderIdentity": "x", "leaseDurationSeconds": u64::MAX}));
    leads_no_more(&first).await;
    pause(3_000).await;
    assert_eq!(store.holder(), "x");
    store.delete();
    a_leader(&[&first, &second]).await;
    assert_eq!(observer.terms(), 2);
}

#[tokio::test]
async fn annotations_end_no_term_and_are_kept() {
    let store = Store::default();
    store.write(&json!({"holderIdentity": "", "leaseDurationSeconds": 1, "strategy": "theirs"}));
    store.annotate("0");
    let a = Replica::start(&store, "a");
    leads(&a).await;
    for i in 1..20 {
        store.annotate(&i.to_string());
        pause(100).await;
    }
    let lease = store.lease().expect("a Lease");
    assert_eq!(lease["metadata"]["annotations"]["note"], "19");
    assert_eq!(lease["spec"]["strategy"], "theirs");
    assert_eq!(a.claim.term(), Some(1));
}

#[tokio::test]
async fn annotations_are_no_renewals() {
    let store = Store::default();
    let [first, second] = leader_and_follower(&store).await;
    first.kill();
    eventually("the other leads", async || {
        store.annotate(&format!("{:?}", std::time::Instant::now()));
        second
            .claim
            .holds()
            .then_some(())
            .ok_or_else(|| "not yet".to_owned())
    })
    .await;
}

// === All at once ===

#[tokio::test]
async fn a_storm_of_faults_makes_no_two_leaders() {
    let store = Store::default();
    let replicas = ["a", "b", "c"].map(|name| Replica::start(&store, name));
    let [a, b, c] = &replicas;
    let observer = observe(&[a, b, c]);
    let mut dice = Dice(20_260_101);
    let mut rolled = Vec::new();
    for _ in 0..100 {
        let (which, what) = (dice.below(3), dice.below(12));
        let fault = match what {
            0 | 1 => Fault::Silence,
            2 => Fault::Refuse,
            3 => Fault::AnswersLost,
            4 => Fault::Slow(350),
            5 => Fault::Slow(1_100),
            6 => Fault::status(500, "refused"),
            7 => Fault::status(409, "refused"),
            _ => Fault::Nothing,
        };
        if what == 11 {
            store.delete();
        }
        rolled.push((which, fault.clone()));
        replicas[which].way.set(fault);
        pause(u64::try_from(dice.below(200)).expect("it is small")).await;
    }
    for replica in &replicas {
        replica.way.set(Fault::Nothing);
        assert!(replica.campaigns());
    }
    a_leader(&[a, b, c]).await;
    pause(500).await;
    println!("{} terms in {rolled:?}", observer.terms());
}

// === What is told ===

#[tokio::test]
async fn gains_and_losses_are_told_once_and_renewals_never() {
    log::keep();
    let store = Store::default();
    store.write(&json!({"holderIdentity": "old", "leaseDurationSeconds": 1}));
    let a = Replica::start(&store, "a");
    leads(&a).await;
    pause(1_000).await;
    assert_eq!(
        log::of(&a.identity),
        ["INFO leading: took the lease of old, unchanged for 1s 500ms"]
    );
    a.way.set(Fault::Refuse);
    leads_no_more(&a).await;
    pause(1_000).await;
    let lines = log::of(&a.identity);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(
        lines[1].starts_with(
            "WARN the lease can't be read or written; trying again: can't update it: "
        ),
        "{}",
        lines[1]
    );
    // A renewal that is on its way just then is cut off instead.
    let causes = ["refused", "connection closed"];
    let tells_why = causes.iter().any(|cause| lines[1].contains(cause));
    assert!(tells_why, "{}", lines[1]);
    assert_eq!(
        lines[2],
        "WARN no longer leading: the lease could not be renewed for 1s"
    );
    a.way.set(Fault::status(403, "refused"));
    eventually("a third kind", async || {
        (log::of(&a.identity).len() > 3)
            .then_some(())
            .ok_or_else(|| "no".to_owned())
    })
    .await;
    assert_eq!(
        log::of(&a.identity)[3],
        "WARN the lease can't be read or written; trying again: can't update it: scripted: refused (403); give its \
         service account get, update and create for leases.coordination.k8s.io in namespace zonewise-system"
    );
    a.way.set(Fault::Nothing);
    leads(&a).await;
    store.write(&json!({"holderIdentity": "new", "leaseDurationSeconds": 1}));
    leads_no_more(&a).await;
    let mut rest = log::of(&a.identity).split_off(4);
    rest.sort();
    assert_eq!(
        rest,
        [
            "INFO leading: could renew the lease again",
            "INFO the lease can be read and written again",
            "WARN no longer leading: new has taken the lease",
        ]
    );
}

#[test]
fn times_that_make_two_leaders_are_refused() {
    let settings = quick("a");
    let seconds = |[lease, claim, retry]: [u64; 3]| {
        let [lease, claim, retry] = [lease, claim, retry].map(Duration::from_secs);
        settings
            .clone()
            .with_times(lease, claim, retry)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    for good in [[15, 10, 2], [600, 300, 150], [3, 2, 1]] {
        assert_eq!(seconds(good), Ok(()));
    }
    for bad in [[10, 10, 2], [15, 10, 6], [15, 10, 0], [601, 10, 2]] {
        assert!(seconds(bad).is_err(), "{bad:?}");
    }
    assert_eq!(
        seconds([10, 15, 2]).unwrap_err(),
        "a lease of 10s, a claim of 15s and a try each 2s don't go together: the lease must be longer than the claim and \
         at most 10m, and the claim at least twice the time between tries"
    );
}
