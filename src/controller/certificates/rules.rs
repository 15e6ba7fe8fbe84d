//! How long certificates last, and what follows from that.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::certs::Validity;
use crate::telemetry::Human;

/// Names and lifetimes of the certificates to be made.
#[derive(Debug, Clone)]
pub struct Rules {
    names: Vec<String>,
    lifetime: Duration,
    ca_lifetime: Duration,
}

/// The shortest lifetime of a server certificate: X.509 counts in seconds.
pub const SHORTEST: Duration = Duration::from_secs(5);

/// The longest lifetime of a CA.
pub const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// Lifetimes that don't go together.
#[derive(Debug, thiserror::Error)]
#[error(
    "a certificate lifetime of {lifetime} and a CA lifetime of {ca_lifetime} don't go together: a certificate lasts at \
     least {shortest}, and its CA at least twice as long and at most {longest}",
    shortest = Human(SHORTEST), longest = Human(LONGEST)
)]
pub struct BadLifetimes {
    lifetime: Human,
    ca_lifetime: Human,
}

impl Rules {
    /// Certificates for these names, DNS names or IP addresses, with these lifetimes.
    ///
    /// # Errors
    /// [`BadLifetimes`] unless [`SHORTEST`] ≤ `lifetime` ≤ `ca_lifetime` / 2 and `ca_lifetime` ≤ [`LONGEST`]. A CA that is
    /// followed by the next one stays trusted for two thirds of a CA's lifetime: longer than whatever it signed lasts.
    pub fn new(
        names: Vec<String>,
        lifetime: Duration,
        ca_lifetime: Duration,
    ) -> Result<Self, BadLifetimes> {
        let go_together =
            SHORTEST <= lifetime && lifetime <= ca_lifetime / 2 && ca_lifetime <= LONGEST;
        if go_together {
            return Ok(Self {
                names,
                lifetime,
                ca_lifetime,
            });
        }
        Err(BadLifetimes {
            lifetime: Human(lifetime),
            ca_lifetime: Human(ca_lifetime),
        })
    }

    /// The names, as they were given.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names as a certificate that was read has them.
    #[must_use]
    pub fn names_in_certificate(&self) -> BTreeSet<String> {
        let as_read = |name: &String| match name.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => name.to_ascii_lowercase(),
        };
        self.names.iter().map(as_read).collect()
    }

    /// How long a server certificate lasts.
    #[must_use]
    pub fn lifetime(&self) -> time::Duration {
        signed(self.lifetime)
    }

    /// How long a CA lasts.
    #[must_use]
    pub fn ca_lifetime(&self) -> time::Duration {
        signed(self.ca_lifetime)
    }

    /// How often each replica looks: so often that a certificate is renewed and taken over long before it ends.
    #[must_use]
    pub fn interval(&self) -> Duration {
        (self.lifetime / 12).min(Duration::from_secs(5))
    }

    /// How long a CA has to be seen in the bundle before anything that it signed is served.
    #[must_use]
    pub fn overlap(&self) -> Duration {
        let looks = self.interval() * 4;
        (self.ca_lifetime / 12).clamp(looks, Duration::from_mins(1).max(looks))
    }

    /// With so much left or less, a certificate of this lifetime is renewed.
    #[must_use]
    pub fn renewed_with(lifetime: time::Duration) -> time::Duration {
        lifetime / 3
    }

    /// With more left than this, a certificate was made by a clock that was wrong or for a lifetime that is no longer
    /// wanted.
    #[must_use]
    pub fn too_long(lifetime: time::Duration) -> time::Duration {
        lifetime + Validity::BACKDATED
    }
}

/// [`LONGEST`] is far from where this would not fit.
fn signed(duration: Duration) -> time::Duration {
    time::Duration::try_from(duration).unwrap_or(time::Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lifetime: u64, ca_lifetime: u64) -> Result<Rules, BadLifetimes> {
        let seconds = Duration::from_secs;
        Rules::new(
            vec!["a.b.svc".into()],
            seconds(lifetime),
            seconds(ca_lifetime),
        )
    }

    #[test]
    fn lifetimes_that_do_not_go_together_are_refused() {
        for (lifetime, ca_lifetime) in [(4, 100), (60, 119), (3600, 101 * 365 * 24 * 3600)] {
            assert!(
                rules(lifetime, ca_lifetime).is_err(),
                "{lifetime} {ca_lifetime}"
            );
        }
        let told = rules(60, 119).unwrap_err().to_string();
        assert!(
            told.starts_with(
                "a certificate lifetime of 1m and a CA lifetime of 1m 59s don't go together: "
            ),
            "{told}"
        );
    }

    #[test]
    fn looks_and_overlap_scale_with_lifetimes_and_leave_time_for_all_of_it() {
        let day = 24 * 3600;
        let times = |lifetime, ca_lifetime| {
            let rules = rules(lifetime, ca_lifetime).unwrap();
            (rules.interval().as_secs_f32(), rules.overlap().as_secs())
        };
        assert_eq!(times(90 * day, 365 * day), (5.0, 60));
        assert_eq!(times(3600, 2 * 3600), (5.0, 60));
        assert_eq!(times(60, 120), (5.0, 20));
        for (lifetime, ca_lifetime) in [(5, 10), (6, 45), (60, 120), (3600, 7200)] {
            let rules = rules(lifetime, ca_lifetime).unwrap();
            let left = Rules::renewed_with(rules.ca_lifetime());
            assert!(left > rules.overlap() + 3 * rules.interval(), "{rules:?}");
            let left = Rules::renewed_with(rules.lifetime());
            assert!(left >= 4 * rules.interval(), "{rules:?}");
        }
    }
}
