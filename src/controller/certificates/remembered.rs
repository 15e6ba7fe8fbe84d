//! The CAs by which replicas may be serving, whatever has become of the Secret.

use time::OffsetDateTime;

use super::contents::Contents;
use crate::certs::read::Certificate;

/// The bundle as it last was in order. A Secret that somebody puts in place of it, an older one from a backup or one with a CA
/// of another's, knows nothing of what replicas serve at that moment.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    signing: Option<Certificate>,
    bundle: Vec<Certificate>,
}

impl Remembered {
    /// Takes in what the Secret holds, unless that has been put in place of what it should hold. Where no webhook
    /// configuration trusts the CA that signed last, which `is_trusted` tells, there is nothing to be saved.
    pub fn note(
        &mut self,
        contents: &Contents,
        now: OffsetDateTime,
        is_trusted: impl Fn(&Certificate) -> bool,
    ) {
        let Some(signing) = &contents.signing else {
            return;
        };
        let counts = self.signing.as_ref().is_some_and(is_trusted);
        if !(counts && self.is_missing_in(&contents.bundle, now)) {
            self.signing = Some(signing.certificate.clone());
            self.bundle.clone_from(&contents.bundle);
        }
    }

    /// Whether a bundle lacks the CA that signed last. One that is followed by another stays in the bundle for longer than
    /// anybody can miss.
    #[must_use]
    pub fn is_missing_in(&self, bundle: &[Certificate], now: OffsetDateTime) -> bool {
        let signing = self.signing.as_ref();
        signing.is_some_and(|ca| !ca.has_ended(now) && !bundle.contains(ca))
    }

    /// Its CAs.
    #[must_use]
    pub fn bundle(&self) -> &[Certificate] {
        &self.bundle
    }

    /// What the Secret holds, with these CAs where they are missing.
    #[must_use]
    pub fn added_to(&self, contents: &Contents, now: OffsetDateTime) -> Contents {
        let mut all = contents.clone();
        if self.is_missing_in(&all.bundle, now) {
            all.trust_too(&self.bundle);
        }
        all
    }
}
