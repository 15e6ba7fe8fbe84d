//! Claims, looked at without a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zonewise::controller::lease::Claim;

/// The terms of all claims at a moment.
type Terms = Vec<Option<u64>>;

/// A thread that looks at claims until it is asked what it saw.
pub struct Observer {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Log>>,
}

/// When terms changed, and the moments at which two claims held.
#[derive(Debug, Default)]
struct Log {
    changes: Vec<(Instant, Terms)>,
    overlaps: Vec<(Instant, Terms)>,
}

impl Observer {
    /// Looks at these.
    pub fn over(claims: Vec<Claim>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = ended.clone();
        let mut log = Log::default();
        log.look(&claims);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(500));
                log.look(&claims);
            }
            log.look(&claims);
            log
        });
        Self {
            ended,
            thread: Some(thread),
        }
    }

    /// How many terms there were.
    ///
    /// # Panics
    /// When two claims held at one moment.
    pub fn terms(mut self) -> usize {
        let log = self.end().expect("it was not asked before");
        assert!(log.overlaps.is_empty(), "two leaders: {log:#?}");
        let mut terms: Vec<_> = log
            .changes
            .iter()
            .flat_map(|(_, terms)| terms.iter().enumerate())
            .filter(|(_, term)| term.is_some())
            .collect();
        terms.sort_unstable();
        terms.dedup();
        terms.len()
    }

    fn end(&mut self) -> Option<Log> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Log {
    /// A claim that is seen in one term before and after another is looked at held meanwhile too.
    fn look(&mut self, claims: &[Claim]) {
        let now = Instant::now();
        let terms = || claims.iter().map(Claim::term).collect::<Terms>();
        let (before, after) = (terms(), terms());
        let throughout = |i: usize| before[i].is_some() && before[i] == after[i];
        let two =
            (0..claims.len()).any(|i| throughout(i) && before[i + 1..].iter().any(Option::is_some));
        if two {
            self.overlaps.push((now, before.clone()));
        }
        if self.changes.last().is_none_or(|(_, last)| *last != before) {
            self.changes.push((now, before));
        }
    }
}
