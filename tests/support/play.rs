//! Scenes of a test: which of them are played, and whether each went well.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures::FutureExt as _;

use super::world::say;

/// Numbers of scenes with commas between them; without it all are played.
const CHOICE: &str = "ZONEWISE_SCENES";

/// Whether all scenes are played.
pub fn are_all_chosen() -> bool {
    std::env::var_os(CHOICE).is_none()
}

/// The scenes that are to be played.
///
/// # Panics
/// When the choice can't be read.
pub fn chosen<P>(
    scenes: impl IntoIterator<Item = (usize, &'static str, P)>,
) -> impl Iterator<Item = (usize, &'static str, P)> {
    let chosen: Option<Vec<usize>> = std::env::var(CHOICE).ok().map(|text| {
        let number = |n: &str| n.trim().parse();
        let numbers = text.split(',').map(number).collect::<Result<_, _>>();
        numbers.unwrap_or_else(|_| panic!("{CHOICE} is a list of numbers with commas"))
    });
    scenes.into_iter().filter(move |(number, ..)| {
        let chosen = chosen.as_ref();
        chosen.is_none_or(|chosen| chosen.contains(number))
    })
}

/// Plays a scene and says how it went; its number if it failed.
pub async fn failure(number: usize, title: &str, scene: impl Future<Output = ()>) -> Option<usize> {
    let started = Instant::now();
    let played = AssertUnwindSafe(scene).catch_unwind().await;
    say_verdict(number, title, played.is_ok(), started);
    played.is_err().then_some(number)
}

/// Says how a scene went, and how long it took.
pub fn say_verdict(number: usize, title: &str, is_well: bool, started: Instant) {
    let verdict = if is_well { "ok" } else { "FAILED" };
    let took = started.elapsed();
    say(&format!("scene {number:2} {title}: {verdict} ({took:.1?})"));
}
