//! Over random histories: who is trusted by what, and what becomes of anything that may stand in the Secret.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Duration as StdDuration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyPair,
    KeyUsagePurpose, NameConstraints,
};
use time::Duration;
use tokio::time::Instant;

use super::*;
use crate::certs::trust;
use crate::controller::certificates::contents::{
    BUNDLE, CA_KEY, CERTIFICATE, Data, KEY, NEXT_CA_KEY,
};
use crate::controller::certificates::overlap::Overlap;

const NAME: &str = "zonewise.zonewise.svc";

fn rules((lifetime, ca_lifetime): (u64, u64)) -> Rules {
    let [lifetime, ca_lifetime] = [lifetime, ca_lifetime].map(StdDuration::from_secs);
    Rules::new(
        vec![NAME.to_owned(), "10.0.0.1".to_owned()],
        lifetime,
        ca_lifetime,
    )
    .unwrap()
}

/// Seconds that a certificate and a CA last.
fn lifetimes() -> impl Strategy<Value = (u64, u64)> {
    const DAY: u64 = 24 * 3600;
    select(vec![
        (5, 10),
        (7, 45),
        (60, 120),
        (60, 3600),
        (3600, 7200),
        (90 * DAY, 365 * DAY),
    ])
}

fn start() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
}

fn alone(now: OffsetDateTime) -> Circumstances<'static> {
    static NOTHING: LazyLock<Remembered> = LazyLock::new(Remembered::default);
    Circumstances {
        now,
        next_is_trusted: false,
        remembered: &NOTHING,
    }
}

/// What a replica remembers that has seen this Secret.
fn remembering(data: &Data) -> Remembered {
    let mut remembered = Remembered::default();
    remembered.note(&Contents::read(data), start(), |_| true);
    remembered
}

/// What is due in these circumstances, done.
fn done(data: &Data, rules: &Rules, circumstances: &Circumstances<'_>) -> (Plan, Data) {
    let contents = Contents::read(data);
    let due = plan(&contents, rules, circumstances);
    let after = carry_out(&due, &contents, rules, circumstances).unwrap();
    (due, after.in_place_in(data))
}

/// The same again and again until nothing is due: a next CA that waited for long is followed at once.
fn settled(data: &Data, rules: &Rules, now: OffsetDateTime) -> Data {
    let mut data = done(data, rules, &alone(now)).1;
    let (due, after) = done(&data, rules, &alone(now));
    if due.ca == CaStep::MakeNext {
        data = after;
    }
    data
}

const IDLE: Plan = Plan {
    ca: CaStep::Keep,
    server: None,
};

fn trusts(bundle: &[u8], server: &Server, now: OffsetDateTime) -> Result<(), String> {
    trust::check(server.serving.chain(), bundle, NAME, now)
}

/// All that must hold of a Secret in order.
fn assert_good(data: &Data, rules: &Rules, now: OffsetDateTime) {
    let contents = Contents::read(data);
    let (ca, server) = (contents.signing.unwrap(), contents.server.unwrap());
    assert!(ca.is_valid(now));
    assert!(server.is_good(&ca, rules, now));
    assert!(server.leaf.validity.until <= ca.certificate.validity.until);
    assert_eq!(trusts(&data[BUNDLE], &server, now), Ok(()));
    assert!(contents.bundle.len() <= MOST_OTHERS + 2);
    let (due, after) = done(data, rules, &alone(now));
    assert_eq!(due, IDLE, "what was just done is due no more");
    assert_eq!(&after, data);
}

// === Histories ===

/// A Secret, a webhook configuration that follows it, and what was handed out of late.
struct History {
    rules: Rules,
    now: OffsetDateTime,
    clock: Instant,
    secret: Data,
    configured: Vec<u8>,
    overlap: Overlap,
    /// Each with the moment from which another took its place.
    certificates: VecDeque<(Server, Option<OffsetDateTime>)>,
    bundles: VecDeque<(Vec<u8>, Option<OffsetDateTime>)>,
    took_over: usize,
}

impl History {
    fn begin(rules: Rules) -> Self {
        let secret = done(&Data::new(), &rules, &alone(start())).1;
        let configured = secret[BUNDLE].clone();
        let server = Contents::read(&secret).server.unwrap();
        Self {
            rules,
            now: start(),
            clock: Instant::now(),
            configured: configured.clone(),
            secret,
            overlap: Overlap::default(),
            certificates: [(server, None)].into(),
            bundles: [(configured, None)].into(),
            took_over: 0,
        }
    }

    fn pass(&mut self, time: StdDuration) {
        self.now += time;
        self.clock += time;
    }

    /// A look of the leader; `puts` says whether it comes to put the bundle in too.
    fn look(&mut self, puts: bool) {
        let contents = Contents::read(&self.secret);
        let cas = crate::certs::read::certificates(&self.configured).0;
        let next = contents.next.as_ref().map(|next| &next.certificate);
        let seen = next.filter(|next| cas.contains(next));
        let seen = seen.map(|next| next.public_key.as_slice());
        self.overlap.note(seen, self.clock);
        let next_is_trusted = next.is_some_and(|next| {
            let overlap = self.rules.overlap();
            self.overlap.is_over(&next.public_key, overlap, self.clock)
        });
        let circumstances = Circumstances {
            next_is_trusted,
            ..alone(self.now)
        };
        let (due, after) = done(&self.secret, &self.rules, &circumstances);
        self.took_over += usize::from(due.ca == CaStep::UseNext);
        if due.server.is_some() {
            let server = Contents::read(&after).server.unwrap();
            hand_out(&mut self.certificates, server, self.now);
        }
        self.secret = after;
        if puts && self.configured != self.secret[BUNDLE] {
            self.configured = self.secret[BUNDLE].clone();
            hand_out(&mut self.bundles, self.configured.clone(), self.now);
        }
    }

    /// Whatever of late was handed out is trusted by whatever of late was.
    fn assert_trusted(&mut self) {
        let since = self.now - self.rules.overlap();
        let is_late = |until: &Option<OffsetDateTime>| until.is_none_or(|until| until > since);
        self.certificates.retain(|(_, until)| is_late(until));
        self.bundles.retain(|(_, until)| is_late(until));
        for (server, _) in &self.certificates {
            if !server.leaf.validity.holds(self.now) {
                continue;
            }
            for (bundle, _) in &self.bundles {
                assert_eq!(trusts(bundle, server, self.now), Ok(()), "at {}", self.now);
            }
        }
    }

    fn is_rotating(&self) -> bool {
        Contents::read(&self.secret).next.is_some()
            || self.bundles.len() + self.certificates.len() > 2
    }
}

fn hand_out<T>(
    handed_out: &mut VecDeque<(T, Option<OffsetDateTime>)>,
    next: T,
    now: OffsetDateTime,
) {
    if let Some((_, until)) = handed_out.back_mut() {
        *until = Some(now);
    }
    handed_out.push_back((next, None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_of_late_was_handed_out_is_trusted_by_whatever_of_late_was(
        lifetimes in lifetimes(),
        turns in vec((0.2_f64..1.5, any::<Index>()), 50),
    ) {
        let mut history = History::begin(rules(lifetimes));
        let end = start() + history.rules.ca_lifetime() * 3;
        let mut turns = turns.iter().cycle();
        while history.now < end {
            let (stretch, chance) = turns.next().unwrap();
            let step = if history.is_rotating() {
                history.rules.interval()
            } else {
                StdDuration::from_secs(lifetimes.0) / 15
            };
            history.pass(step.mul_f64(*stretch));
            // One look in five puts nothing in: the API server is away, or another wrote first.
            let before = history.secret.clone();
            history.look(chance.index(5) > 0);
            if history.secret != before {
                assert_good(&history.secret, &history.rules, history.now);
            }
            if history.is_rotating() {
                history.assert_trusted();
            }
        }
        prop_assert!(history.took_over >= 3, "{} CAs took over", history.took_over);
    }

    #[test]
    fn a_leader_that_was_away_for_however_long_begins_where_it_can(
        lifetimes in lifetimes(),
        absences in vec(0.0_f64..1.3, 1..8),
    ) {
        let mut history = History::begin(rules(lifetimes));
        for absence in absences {
            history.pass(StdDuration::from_secs(lifetimes.1).mul_f64(absence));
            history.look(true);
            history.secret = settled(&history.secret, &history.rules, history.now);
            assert_good(&history.secret, &history.rules, history.now);
        }
    }

    #[test]
    fn from_anything_that_may_stand_in_the_secret_it_comes_to_a_good_state(
        lifetimes in lifetimes(),
        rotating in any::<bool>(),
        spoils in vec((any::<Index>(), spoil()), 0..6),
        hours in -30_i64..30,
    ) {
        let rules = rules(lifetimes);
        let mut data = done(&Data::new(), &rules, &alone(start())).1;
        if rotating {
            let late = start() + rules.ca_lifetime() * 7 / 10;
            data = done(&data, &rules, &alone(late)).1;
            prop_assert!(data.contains_key(NEXT_CA_KEY));
        }
        let good = data.clone();
        for (key, spoil) in &spoils {
            let keys = [BUNDLE, CA_KEY, NEXT_CA_KEY, CERTIFICATE, KEY];
            spoil.apply(&mut data, keys[key.index(keys.len())], &good);
        }
        let now = start() + Duration::hours(hours);
        let before = Contents::read(&data);
        let after = settled(&data, &rules, now);
        assert_good(&after, &rules, now);
        let bundle = Contents::read(&after).bundle;
        let lost = before.bundle.iter().find(|ca| !ca.has_ended(now) && !bundle.contains(ca));
        prop_assert!(lost.is_none(), "{lost:?}");
    }
}

/// What may happen to one key of a Secret.
#[derive(Debug, Clone)]
enum Spoil {
    Remove,
    Empty,
    Cut(Index),
    Flip(Index),
    Garbage(Vec<u8>),
    Twice,
    OfAnother(Index),
    OfAStranger,
}

fn spoil() -> impl Strategy<Value = Spoil> {
    prop_oneof![
        Just(Spoil::Remove),
        Just(Spoil::Empty),
        any::<Index>().prop_map(Spoil::Cut),
        any::<Index>().prop_map(Spoil::Flip),
        vec(any::<u8>(), 0..200).prop_map(Spoil::Garbage),
        Just(Spoil::Twice),
        any::<Index>().prop_map(Spoil::OfAnother),
        Just(Spoil::OfAStranger),
    ]
}

impl Spoil {
    fn apply(&self, data: &mut Data, key: &str, good: &Data) {
        let value = data.remove(key).unwrap_or_default();
        let value = match self {
            Self::Remove => return,
            Self::Empty => Vec::new(),
            Self::Cut(_) | Self::Flip(_) if value.is_empty() => value,
            Self::Cut(at) => value[..at.index(value.len())].to_vec(),
            Self::Flip(at) => {
                let (mut value, at) = (value.clone(), at.index(value.len()));
                value[at] ^= 1;
                value
            }
            Self::Garbage(bytes) => bytes.clone(),
            Self::Twice => value.repeat(2),
            Self::OfAnother(index) => {
                let values: Vec<_> = good.values().collect();
                (*index.get(&values)).clone()
            }
            Self::OfAStranger => {
                let other = done(&Data::new(), &rules((60, 120)), &alone(start())).1;
                other.get(key).cloned().unwrap_or_default()
            }
        };
        data.insert(key.to_owned(), value);
    }
}

// === One thing at a time ===

/// A Secret as it was first made, and the same with its rules.
fn first() -> (Rules, Data) {
    let rules = rules((3600, 7200));
    let data = done(&Data::new(), &rules, &alone(start())).1;
    (rules, data)
}

#[test]
fn the_first_certificate_begins_an_hour_ago_and_lasts_as_long_as_was_said() {
    let (rules, data) = first();
    assert_good(&data, &rules, start());
    let contents = Contents::read(&data);
    let of = |from, until| Validity {
        from: start() + from,
        until: start() + until,
    };
    let (ca, server) = (contents.signing.unwrap(), contents.server.unwrap());
    assert_eq!(
        ca.certificate.validity,
        of(-Duration::HOUR, Duration::HOUR * 2)
    );
    assert_eq!(server.leaf.validity, of(-Duration::HOUR, Duration::HOUR));
    assert!(contents.next.is_none());
}

#[test]
fn a_certificate_is_renewed_after_two_thirds_of_its_lifetime_and_ca_and_bundle_stay() {
    let (rules, data) = first();
    let at = |minutes| alone(start() + Duration::minutes(minutes));
    assert_eq!(done(&data, &rules, &at(39)).0, IDLE);
    let (due, after) = done(&data, &rules, &at(41));
    assert_eq!((due.ca, due.server), (CaStep::Keep, Some("it ends soon")));
    assert_eq!(
        (&after[BUNDLE], &after[CA_KEY]),
        (&data[BUNDLE], &data[CA_KEY])
    );
}

#[test]
fn a_clock_that_is_wrong_by_less_than_an_hour_changes_nothing() {
    let (rules, data) = first();
    for minutes in [-59, 39] {
        let at = start() + Duration::minutes(minutes);
        assert_eq!(done(&data, &rules, &alone(at)).0, IDLE, "{minutes}");
        let server = Contents::read(&data).server.unwrap();
        assert_eq!(trusts(&data[BUNDLE], &server, at), Ok(()));
    }
}

#[test]
fn a_ca_is_followed_in_two_steps_and_goes_at_the_next_one_but_one() {
    let (rules, mut data) = first();
    let mut now = start();
    let mut signing = Vec::new();
    for _ in 0..3 {
        now += Duration::minutes(81);
        let circumstances = alone(now);
        let (due, made) = done(&data, &rules, &circumstances);
        assert_eq!(due.ca, CaStep::MakeNext);
        assert_eq!(made[CA_KEY], data[CA_KEY], "nothing is signed by it yet");
        let trusted = Circumstances {
            next_is_trusted: true,
            ..circumstances
        };
        let (due, used) = done(&made, &rules, &trusted);
        assert_eq!(due.ca, CaStep::UseNext);
        assert_eq!(used[CA_KEY], made[NEXT_CA_KEY]);
        assert!(!used.contains_key(NEXT_CA_KEY));
        assert_good(&used, &rules, now);
        let [before, after] = [&data, &used].map(|data| Contents::read(data).signing.unwrap());
        assert_eq!(
            Contents::read(&used).bundle,
            [after.certificate.clone(), before.certificate]
        );
        signing.push(after.certificate);
        data = used;
    }
    signing.dedup();
    assert_eq!(signing.len(), 3);
}

#[test]
fn a_secret_that_is_gone_is_made_anew_and_the_cas_before_are_trusted_for_a_while() {
    let (rules, data) = first();
    let remembered = remembering(&data);
    let circumstances = Circumstances {
        remembered: &remembered,
        ..alone(start())
    };
    let (due, after) = done(&Data::new(), &rules, &circumstances);
    assert_eq!(due.ca, CaStep::StartAfresh);
    let contents = Contents::read(&after);
    assert_eq!(contents.bundle.len(), 2);
    assert_eq!(contents.bundle[1..], *remembered.bundle());
    let before = Contents::read(&data).server.unwrap();
    assert_eq!(trusts(&after[BUNDLE], &before, start()), Ok(()));
}

#[test]
fn a_secret_that_is_put_back_to_an_older_one_keeps_the_ca_of_what_replicas_serve() {
    let (rules, older) = first();
    let newer = done(&Data::new(), &rules, &alone(start())).1;
    let served = Contents::read(&newer).server.unwrap();
    let mut remembered = remembering(&newer);
    remembered.note(&Contents::read(&older), start(), |_| true);
    let circumstances = Circumstances {
        remembered: &remembered,
        ..alone(start())
    };
    let (due, after) = done(&older, &rules, &circumstances);
    assert_eq!(due, IDLE, "the older CA and its certificate are good");
    assert_eq!(after[CERTIFICATE], older[CERTIFICATE]);
    let offered = Contents::read(&after).server.unwrap();
    for server in [&served, &offered] {
        assert_eq!(trusts(&after[BUNDLE], server, start()), Ok(()));
    }
    let (due, again) = done(&after, &rules, &circumstances);
    assert_eq!((due, again), (IDLE, after.clone()), "once is enough");
    let over = start() + rules.ca_lifetime();
    let circumstances = Circumstances {
        now: over,
        ..circumstances
    };
    let later = done(&after, &rules, &circumstances).1;
    assert_eq!(
        Contents::read(&later).bundle.len(),
        1,
        "all has ended but one"
    );
}

#[test]
fn a_stranger_with_many_cas_does_not_drive_out_the_ca_of_what_replicas_serve() {
    let (rules, data) = first();
    let mut stranger = Data::new();
    for _ in 0..=MOST_OTHERS {
        stranger.remove(CA_KEY);
        stranger = done(&stranger, &rules, &alone(start())).1;
    }
    let remembered = remembering(&data);
    let circumstances = Circumstances {
        remembered: &remembered,
        ..alone(start())
    };
    let after = done(&stranger, &rules, &circumstances).1;
    let served = Contents::read(&data).server.unwrap();
    assert_eq!(trusts(&after[BUNDLE], &served, start()), Ok(()));
    assert_good(&after, &rules, start());
}

#[test]
fn a_shorter_lifetime_takes_effect_at_once() {
    let (_, data) = first();
    let day = rules((24 * 3600, 365 * 24 * 3600));
    let long = done(&Data::new(), &day, &alone(start())).1;
    let (due, _) = done(&long, &rules((3600, 7200)), &alone(start()));
    assert_eq!(due.ca, CaStep::MakeNext);
    assert_eq!(due.server, Some("it lasts longer than it should"));
    let (due, _) = done(&data, &day, &alone(start()));
    assert_eq!(
        due.ca,
        CaStep::MakeNext,
        "a longer one too: this one ends soon by its measure"
    );
}

#[test]
fn keys_that_are_not_ours_stay() {
    let (rules, mut data) = first();
    data.insert("note.txt".to_owned(), b"ask Ada".to_vec());
    data.remove(KEY);
    let after = done(&data, &rules, &alone(start())).1;
    assert_eq!(after["note.txt"], b"ask Ada");
    assert_good(&after, &rules, start());
}

/// A CA that somebody made for another purpose, PEM, and its key.
fn made_with(change: impl FnOnce(&mut CertificateParams)) -> [Vec<u8>; 2] {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut ca);
    let key = KeyPair::generate().unwrap();
    [ca.self_signed(&key).unwrap().pem(), key.serialize_pem()].map(String::into_bytes)
}

/// One that vouches for names below example.com alone.
fn of_example_com() -> [Vec<u8>; 2] {
    made_with(|ca| {
        ca.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName("example.com".to_owned())],
            excluded_subtrees: Vec::new(),
        });
    })
}

#[test]
fn a_ca_whose_signature_api_servers_would_not_trust_is_as_good_as_none() {
    let (rules, data) = first();
    let served = Contents::read(&data).server.unwrap();
    let remembered = remembering(&data);
    let circumstances = Circumstances {
        remembered: &remembered,
        ..alone(start())
    };
    for [certificate, key] in [
        of_example_com(),
        made_with(|ca| ca.key_usages = vec![KeyUsagePurpose::DigitalSignature]),
        made_with(|ca| ca.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
        made_with(|ca| ca.is_ca = IsCa::ExplicitNoCa),
    ] {
        let mut useless = data.clone();
        useless.extend([(BUNDLE.to_owned(), certificate), (CA_KEY.to_owned(), key)]);
        let (due, after) = done(&useless, &rules, &circumstances);
        assert_eq!(due.ca, CaStep::StartAfresh);
        assert_good(&after, &rules, start());
        assert_eq!(trusts(&after[BUNDLE], &served, start()), Ok(()));
    }
}

#[test]
fn a_next_ca_whose_signature_api_servers_would_not_trust_never_signs() {
    let (rules, data) = first();
    let [certificate, key] = of_example_com();
    let mut useless = data.clone();
    let bundle = [certificate, data[BUNDLE].clone()].concat();
    useless.extend([(BUNDLE.to_owned(), bundle), (NEXT_CA_KEY.to_owned(), key)]);
    let circumstances = Circumstances {
        next_is_trusted: true,
        ..alone(start())
    };
    let (due, after) = done(&useless, &rules, &circumstances);
    assert_eq!(due, IDLE);
    assert_eq!(after[CA_KEY], data[CA_KEY]);
    assert!(!after.contains_key(NEXT_CA_KEY));
}
