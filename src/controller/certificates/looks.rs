//! Webhook configurations, looked at again and again.

use futures::future::join_all;
use kube::Client;
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;

use super::configuration::{Configuration, ConfigurationName, Trust, worst};
use crate::certs::read::Certificate;
use crate::controller::call::Failed;

/// What a webhook configuration was seen as.
pub type Seen = Result<Configuration, Failed>;

/// The webhook configurations that call zonewise, as they were seen.
#[derive(Debug)]
pub struct Looks {
    names: Vec<ConfigurationName>,
    now: Vec<Seen>,
    last: Vec<Seen>,
}

impl Looks {
    /// Not looked at yet.
    #[must_use]
    pub fn new(names: Vec<ConfigurationName>) -> Self {
        let unseen = || Failed::Unanswered("not looked at yet".to_owned());
        let unseen: Vec<Seen> = names.iter().map(|_| Err(unseen())).collect();
        Self {
            now: unseen.clone(),
            last: unseen,
            names,
        }
    }

    /// Looks at all of them.
    pub async fn look(&mut self, client: &Client) {
        let looks = self.names.iter().map(|name| name.get(client));
        let seen = join_all(looks).await;
        self.note(seen);
    }

    /// Takes in what they were seen as.
    pub(super) fn note(&mut self, seen: Vec<Seen>) {
        for (last, seen) in self.last.iter_mut().zip(&seen) {
            if matches!(seen, Ok(_) | Err(Failed::Absent)) {
                last.clone_from(seen);
            }
        }
        self.now = seen;
    }

    /// Each as it was seen at the last look, if it could be.
    pub fn now(&self) -> impl Iterator<Item = (&ConfigurationName, &Seen)> {
        self.names.iter().zip(&self.now)
    }

    /// Each as it was seen at the last look at which it could be.
    pub fn last(&self) -> impl Iterator<Item = (&ConfigurationName, &Seen)> {
        self.names.iter().zip(&self.last)
    }

    /// Whether any of them may have this CA in its bundles.
    #[must_use]
    pub fn may_trust_ca(&self, ca: &Certificate) -> bool {
        self.now().any(|(_, seen)| match seen {
            Ok(configuration) => configuration.trusts_ca(ca),
            Err(_) => true,
        })
    }

    /// Whether a chain, leaf first, is trusted by what was seen at the last look.
    #[must_use]
    pub fn trust(&self, chain: &[CertificateDer<'_>], now: OffsetDateTime) -> Trust {
        worst(self.now().map(|(name, seen)| name.trust(seen, chain, now)))
    }

    /// The same by what was last seen of each: while the API server does not answer, its clock goes on.
    #[must_use]
    pub fn trust_by_the_last(&self, chain: &[CertificateDer<'_>], now: OffsetDateTime) -> Trust {
        worst(self.last().map(|(name, seen)| name.trust(seen, chain, now)))
    }
}
