//! For how long CAs have been trusted everywhere.

use std::time::Duration;

use tokio::time::Instant;

/// CAs, by their public keys, that are seen in the webhook configurations, each with the moment since when without a break.
/// It is what this replica saw, and goes by the local clock alone, which nobody sets.
#[derive(Debug, Default)]
pub struct Overlap(Vec<(Vec<u8>, Instant)>);

impl Overlap {
    /// Notes that the CAs with these public keys, and no others, were in every bundle at this moment.
    pub fn note<'k>(&mut self, trusted: impl IntoIterator<Item = &'k [u8]>, at: Instant) {
        let since = |key: &[u8]| self.0.iter().find(|(known, _)| known == key);
        let noted = trusted.into_iter().map(|key| {
            let since = since(key).map_or(at, |(_, since)| *since);
            (key.to_vec(), since)
        });
        self.0 = noted.collect();
    }

    /// Whether the CA with this public key has been there for so long.
    #[must_use]
    pub fn is_over(&self, key: &[u8], overlap: Duration, at: Instant) -> bool {
        let mut known = self.0.iter();
        known.any(|(known, since)| known == key && at.duration_since(*since) >= overlap)
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
        overlap.note(Some(&b"next"[..]), at(0));
        overlap.note([&b"next"[..], b"other"], at(9));
        assert!(!is_over(&overlap, b"next", 9) && is_over(&overlap, b"next", 10));
        assert!(!is_over(&overlap, b"other", 10) && is_over(&overlap, b"other", 19));
        overlap.note(Some(&b"other"[..]), at(11));
        overlap.note([&b"next"[..], b"other"], at(12));
        assert!(!is_over(&overlap, b"next", 21) && is_over(&overlap, b"next", 22));
        assert!(is_over(&overlap, b"other", 19));
    }
}
