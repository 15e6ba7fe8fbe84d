//! CA bundles that were put in, and how often another tool has taken them out again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::agenda::{LONGEST_RETRY, wait_after};

/// A bundle, and the webhook configuration in which it should stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The configuration's uid: one that was made anew has not been tried.
    pub uid: String,
    /// The bundle.
    pub bundle: Vec<u8>,
}

/// A bundle that is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    /// Whether somebody has taken it out since the last look.
    pub is_news: bool,
    /// How often of late it was put in to no avail.
    pub times: u32,
    /// When it may be put in.
    pub from: Instant,
}

/// What was last put into each webhook configuration, by its name.
#[derive(Debug, Default)]
pub struct Puts(BTreeMap<String, Put>);

#[derive(Debug)]
struct Put {
    what: Wanted,
    at: Instant,
    times: u32,
    is_undone: bool,
}

/// A bundle that stayed for so long is put in at once when it is missing.
const STAYED: Duration = LONGEST_RETRY.saturating_mul(2);

impl Put {
    fn counts(&self, what: &Wanted, now: Instant) -> bool {
        self.what == *what && now < self.at + STAYED
    }
}

impl Puts {
    /// Notes that a bundle was put in.
    pub fn note(&mut self, name: &str, what: Wanted, now: Instant) {
        let before = self.0.get(name).filter(|put| put.counts(&what, now));
        let times = before.map_or(1, |put| put.times.saturating_add(1));
        let put = Put {
            what,
            at: now,
            times,
            is_undone: false,
        };
        self.0.insert(name.to_owned(), put);
    }

    /// Notes that a bundle is missing. It may be put in 1, 2, 4 … 60 s after it last was.
    pub fn note_missing(&mut self, name: &str, what: &Wanted, now: Instant) -> Missing {
        let put = self.0.get_mut(name);
        match put.filter(|put| put.counts(what, now)) {
            Some(put) => Missing {
                is_news: !std::mem::replace(&mut put.is_undone, true),
                times: put.times,
                from: put.at + wait_after(put.times),
            },
            None => Missing {
                is_news: false,
                times: 0,
                from: now,
            },
        }
    }

    /// Whether a bundle that is there has stayed for a while, or was not put in by this replica.
    #[must_use]
    pub fn has_stayed(&self, name: &str, now: Instant) -> bool {
        let put = self.0.get(name);
        put.is_none_or(|put| now >= put.at + STAYED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "MutatingWebhookConfiguration zonewise";

    fn wanted(uid: &str, bundle: &[u8]) -> Wanted {
        Wanted {
            uid: uid.to_owned(),
            bundle: bundle.to_vec(),
        }
    }

    #[tokio::test]
    async fn what_is_taken_out_again_and_again_is_put_in_less_and_less_often_until_it_stays() {
        let mut puts = Puts::default();
        let (mut now, what) = (Instant::now(), wanted("u", b"a"));
        let mut waited = Vec::new();
        for _ in 0..9 {
            let missing = puts.note_missing(NAME, &what, now);
            waited.push((missing.from - now).as_secs());
            now = missing.from;
            puts.note(NAME, what.clone(), now);
        }
        assert_eq!(waited, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        for untried in [wanted("u", b"b"), wanted("v", b"a")] {
            assert_eq!(puts.note_missing(NAME, &untried, now).from, now);
        }
        assert!(!puts.has_stayed(NAME, now + STAYED / 2));
        let later = now + STAYED;
        assert!(puts.has_stayed(NAME, later));
        let missing = puts.note_missing(NAME, &what, later);
        assert_eq!((missing.times, missing.from), (0, later));
    }

    #[tokio::test]
    async fn each_time_that_it_is_taken_out_is_news_once() {
        let (now, what) = (Instant::now(), wanted("u", b"a"));
        let mut puts = Puts::default();
        let is_news = |puts: &mut Puts| puts.note_missing(NAME, &what, now).is_news;
        assert!(!is_news(&mut puts), "it was never put in");
        puts.note(NAME, what.clone(), now);
        assert_eq!([is_news(&mut puts), is_news(&mut puts)], [true, false]);
        puts.note(NAME, what.clone(), now);
        assert!(is_news(&mut puts));
    }
}
