//! For how long the next CA has been trusted everywhere.

use std::time::Duration;

use tokio::time::Instant;

/// Seen in the webhook configurations, without a break, by this replica. It goes by the local clock alone, which nobody
/// sets.
#[derive(Debug, Default)]
pub struct Overlap(Option<(Vec<u8>, Instant)>);

impl Overlap {
    /// Notes that the CA with this public key was in every bundle at this moment; or that none was.
    pub fn note(&mut self, trusted: Option<&[u8]>, at: Instant) {
        let since = |known: &(Vec<u8>, Instant)| Some(known.0.as_slice()) == trusted;
        if !self.0.as_ref().is_some_and(since) {
            self.0 = trusted.map(|key| (key.to_vec(), at));
        }
    }

    /// Whether the CA with this public key has been there for so long.
    #[must_use]
    pub fn is_over(&self, key: &[u8], overlap: Duration, at: Instant) -> bool {
        self.0
            .as_ref()
            .is_some_and(|(known, since)| known == key && at.duration_since(*since) >= overlap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_counts_from_when_a_ca_was_first_seen_everywhere_and_anew_after_a_break() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut overlap = Overlap::default();
        let is_over = |overlap: &Overlap, key: &[u8], seconds| {
            overlap.is_over(key, Duration::from_secs(10), at(seconds))
        };
        overlap.note(Some(b"next"), at(0));
        overlap.note(Some(b"next"), at(9));
        assert!(!is_over(&overlap, b"next", 9) && is_over(&overlap, b"next", 10));
        assert!(!is_over(&overlap, b"other", 10));
        overlap.note(None, at(11));
        overlap.note(Some(b"next"), at(12));
        assert!(!is_over(&overlap, b"next", 21) && is_over(&overlap, b"next", 22));
        overlap.note(Some(b"other"), at(23));
        assert!(!is_over(&overlap, b"next", 40) && is_over(&overlap, b"other", 33));
    }
}
