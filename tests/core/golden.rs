//! Pins what the program answers: hashes over the effects of 10,000 random reviews, and the JSON report of an example.
//!
//! The files in `tests/golden` hold what was answered when they were written. A hash covers what an answer does (allowed, patch,
//! verdict, reason, warnings by number), not the sentences in it. So a change that only moves code or rewords a message passes.

mod answers;
mod cluster;
mod reviews;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zonewise::cluster::files::Objects;
use zonewise::cluster::store::{Cluster, StoreRules};
use zonewise::decide::{Snapshot, Verdict, asked_for};
use zonewise::planner::heuristic::Heuristic;
use zonewise::planner::reason::Reason;
use zonewise::report::{Filter, Report};
use zonewise::settings::Settings;

use self::answers::{of_mutate, of_validate};
use self::cluster::World;
use self::reviews::Review;
use crate::dice::Dice;
use crate::now;

const BATCHES: usize = 100;
const REVIEWS: usize = 100;
/// How many reviews are about one cluster.
const REVIEWS_OF_A_WORLD: usize = 4;

/// The batch whose reviews and answers are printed, and nothing compared.
const BATCH: &str = "GOLDEN_BATCH";
/// `1` where the files are to be written.
const WRITE: &str = "GOLDEN_WRITE";

/// How often each outcome came up.
type Coverage = BTreeMap<String, u32>;

#[test]
fn ten_thousand_reviews_have_the_effects_that_they_had() {
    if let Some(number) = std::env::var_os(BATCH) {
        let number = number.to_str().and_then(|number| number.parse().ok());
        let number = number.filter(|number| (1..=BATCHES).contains(number));
        let number = number.unwrap_or_else(|| panic!("{BATCH} is a number from 1 to {BATCHES}"));
        Batch::answer(number, &mut Coverage::new(), |line| println!("{line}"));
        return;
    }
    let mut coverage = Coverage::new();
    let batches: Vec<Batch> = (1..=BATCHES)
        .map(|number| Batch::answer(number, &mut coverage, |_| {}))
        .collect();
    let lines: String = batches.iter().map(Batch::line).collect();
    let covered: String = coverage
        .iter()
        .map(|(outcome, times)| format!("{outcome}: {times}"))
        .collect::<Vec<_>>()
        .join("\n");
    let covered = covered + "\n";
    if is_to_be_written("hashes.txt", &lines) {
        is_to_be_written("coverage.txt", &covered);
    } else {
        compare(&batches, include_str!("../golden/hashes.txt"));
        assert_eq!(
            covered,
            include_str!("../golden/coverage.txt"),
            "the hashes agree, but what the reviews cover does not; {}",
            rewriting()
        );
    }
    check_coverage(&coverage);
}

#[test]
fn the_report_of_the_example_is_what_it_was() {
    let objects = Objects::read(&["examples/cluster.yaml"]).expect("the example can be read");
    let cluster = objects.load(StoreRules::default(), now()).cluster();
    let settings = Settings::default();
    let report = Report::new(&cluster, &settings, &objects, &Filter::default());
    let mut report = serde_json::to_value(report).expect("a report is JSON");
    remove_sentences(&mut report);
    let text = serde_json::to_string_pretty(&report).expect("a report is JSON") + "\n";
    if is_to_be_written("cluster.json", &text) {
        return;
    }
    let parse = |text: &str| -> Value { serde_json::from_str(text).expect("it is JSON") };
    let (ours, golden) = (parse(&text), parse(include_str!("../golden/cluster.json")));
    if let Some(difference) = difference("", &golden, &ours) {
        panic!(
            "`explain -o json` of examples/cluster.yaml differs at {difference}; {}",
            rewriting()
        );
    }
}

/// Removes what is written for people, whose wording may change.
fn remove_sentences(json: &mut Value) {
    match json {
        Value::Object(members) => {
            members.retain(|key, _| key != "message");
            members.values_mut().for_each(remove_sentences);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_sentences),
        _ => {}
    }
}

/// The first place at which two values differ.
fn difference(place: &str, golden: &Value, ours: &Value) -> Option<String> {
    match (golden, ours) {
        (Value::Object(golden), Value::Object(ours)) => {
            let keys: BTreeSet<&String> = golden.keys().chain(ours.keys()).collect();
            let null = Value::Null;
            let member = |object: &serde_json::Map<String, Value>, key: &str| {
                object.get(key).unwrap_or(&null).clone()
            };
            keys.into_iter().find_map(|key| {
                let place = format!("{place}/{key}");
                if golden.contains_key(key) != ours.contains_key(key) {
                    return Some(format!("{place}: only one has it"));
                }
                difference(&place, &member(golden, key), &member(ours, key))
            })
        }
        (Value::Array(golden), Value::Array(ours)) if golden.len() == ours.len() => {
            let mut pairs = golden.iter().zip(ours).enumerate();
            pairs.find_map(|(i, (golden, ours))| difference(&format!("{place}/{i}"), golden, ours))
        }
        _ if golden == ours => None,
        _ => Some(format!("{place}: was {golden}, is {ours}")),
    }
}

/// A hundred reviews, by what their answers do.
struct Batch {
    number: usize,
    hash: u64,
    /// Two hexadecimal digits for each review, so that the first that differs can be named.
    checks: String,
}

impl Batch {
    /// Makes up a batch and answers it; `show` gets what there is to see of it, line by line.
    fn answer(number: usize, coverage: &mut Coverage, mut show: impl FnMut(&str)) -> Self {
        let mut batch = Self {
            number,
            hash: FNV_OFFSET,
            checks: String::new(),
        };
        let mut world: Option<(World, Arc<Cluster>)> = None;
        for place in 0..REVIEWS {
            let seed = (number as u64) << 32 | place as u64;
            let mut dice = Dice(seed);
            if place % REVIEWS_OF_A_WORLD == 0 {
                let mut new = World::random(&mut dice);
                if dice.one_in(3) {
                    new.settle();
                }
                for object in &new.objects {
                    show(&format!("{number}/{place} cluster {object}"));
                }
                let cluster = new.load(&[]).cluster();
                world = Some((new, cluster));
            }
            let (world, cluster) = world.as_mut().expect("the first review makes one");
            let review = Review::random(&mut dice, world, cluster);
            let with_stored = review.stored.as_slice();
            let cluster = match with_stored {
                [] => cluster.clone(),
                stored => world.load(stored).cluster(),
            };
            let body = String::from_utf8_lossy(&review.body);
            show(&format!("{number}/{place} settings {:?}", review.settings));
            for stored in with_stored {
                show(&format!("{number}/{place} stored {stored}"));
            }
            show(&format!(
                "{number}/{place} review {}",
                body.replace('\n', " ")
            ));
            let line = answer(&review, &cluster, coverage);
            for line in line.lines() {
                show(&format!("{number}/{place} {line}"));
            }
            batch.hash = fnv(batch.hash, line.as_bytes());
            let check = fnv(FNV_OFFSET, line.as_bytes()).to_be_bytes();
            let check = check.into_iter().fold(0, |all, byte| all ^ byte);
            write!(batch.checks, "{check:02x}").expect("a String takes everything");
        }
        batch
    }

    fn line(&self) -> String {
        format!("{} {:016x} {}\n", self.number, self.hash, self.checks)
    }

    /// What differs from a line of the file.
    fn difference(&self, golden: &str) -> Option<String> {
        if golden == self.line().trim_end() {
            return None;
        }
        let checks = golden.split(' ').nth(2).unwrap_or_default().as_bytes();
        let mut pairs = checks.chunks(2).zip(self.checks.as_bytes().chunks(2));
        let first = pairs.position(|(golden, ours)| golden != ours);
        let first = first.map_or_else(
            || "which review differs is not known".to_owned(),
            |place| {
                let seed = (self.number as u64) << 32 | place as u64;
                format!("the first review that differs is number {place}, of seed {seed:#x}")
            },
        );
        Some(format!("batch {}: {first}", self.number))
    }
}

/// Answers a review at both paths, and counts what came of it.
fn answer(review: &Review, cluster: &Cluster, coverage: &mut Coverage) -> String {
    let mut count = |outcome: String| *coverage.entry(outcome).or_default() += 1;
    let mutated = of_mutate(&review.body, cluster, &review.settings);
    count(format!("mutate {} {}", mutated.verdict, mutated.reason));
    if mutated.verdict == Verdict::Hints.word() {
        let snapshot = Snapshot::take(cluster, Some("shop/web"));
        let asked =
            asked_for(&snapshot, "shop/web", &review.settings).expect("hints are asked for");
        count(format!("heuristic {:?}", asked.heuristic));
    }
    let validated = of_validate(&review.body, cluster, &review.settings);
    count(format!(
        "validate {} {}",
        validated.verdict, validated.reason
    ));
    for effect in [&mutated, &validated] {
        for operation in [" CREATE ", " UPDATE ", " OTHER ", " no review"] {
            if effect.line.contains(operation) {
                count(format!("operation {}", operation.trim()));
            }
        }
    }
    format!("{}\n{}\n", mutated.line, validated.line)
}

fn compare(batches: &[Batch], golden: &str) {
    let golden: Vec<&str> = golden.lines().collect();
    assert_eq!(golden.len(), BATCHES, "lines of hashes.txt");
    let differences = batches.iter().zip(golden);
    let differences: Vec<String> = differences
        .filter_map(|(batch, golden)| batch.difference(golden))
        .collect();
    let Some(first) = differences.first() else {
        return;
    };
    let batch = first.split([' ', ':']).nth(1).unwrap_or_default();
    panic!(
        "{} of {BATCHES} batches are answered differently.\n{first}.\nTo see it, run this before and after the change and \
         compare the lines: {BATCH}={batch} cargo test --test core golden -- --nocapture | grep ^{batch}/\n{}",
        differences.len(),
        rewriting()
    );
}

fn rewriting() -> String {
    format!("if the change is meant: {WRITE}=1 cargo test --test core golden")
}

/// Writes a file of `tests/golden` where that is asked for.
fn is_to_be_written(name: &str, text: &str) -> bool {
    if std::env::var_os(WRITE).is_none_or(|value| value != "1") {
        return false;
    }
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::write(folder.join(name), text).expect("the file can be written");
    true
}

/// The reviews reach every verdict, heuristic and operation, and every reason.
fn check_coverage(coverage: &Coverage) {
    let verdicts = Verdict::ALL.map(|verdict| format!("mutate {} ", verdict.word()));
    let validations = ["Allowed", "Warned", "Denied"].map(|v| format!("validate {v} "));
    let heuristics = Heuristic::ALL.map(|heuristic| format!("heuristic {heuristic:?}"));
    let operations = ["CREATE", "UPDATE", "OTHER", "no review"].map(|o| format!("operation {o}"));
    let wanted = verdicts.iter().chain(&validations);
    for outcome in wanted.chain(&heuristics).chain(&operations) {
        let times = coverage.iter().filter(|(key, _)| key.starts_with(outcome));
        let times: u32 = times.map(|(_, times)| times).sum();
        assert!(times > 50, "{outcome}: {times}");
    }
    let is_reached = |word: &&&str| {
        let is_it = |outcome: &String| {
            outcome.starts_with("mutate ") && outcome.ends_with(&format!(" {word}"))
        };
        coverage.keys().any(is_it)
    };
    let unreached: Vec<&str> = Reason::WORDS
        .iter()
        .filter(|word| !is_reached(word))
        .copied()
        .collect();
    assert_eq!(unreached, Vec::<&str>::new());
}

/// FNV-1a, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(hash, step)
}
