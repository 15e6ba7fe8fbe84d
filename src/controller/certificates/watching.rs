//! Whether webhook configurations trust a certificate that comes from files: looked at, and no more.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use tokio::time::sleep;

use super::configuration::{ConfigurationName, Trust, worst};
use super::looks::Looks;
use super::metrics::CertificateMetrics;
use super::told::Told;
use crate::certs::serving::CurrentCertificate;

const INTERVAL: Duration = Duration::from_secs(5);

/// What it works with.
pub struct Watching {
    /// The API server.
    pub client: Client,
    /// What is looked at.
    pub configurations: Vec<ConfigurationName>,
    /// What is served.
    pub current: Arc<CurrentCertificate>,
    /// Where it is told.
    pub metrics: CertificateMetrics,
}

/// Looks until the process ends.
pub async fn run(watching: Watching) {
    let mut looks = Looks::new(watching.configurations.clone());
    let mut told = Told::default();
    loop {
        looks.look(&watching.client).await;
        if let Some(serving) = watching.current.get() {
            let trust = judge(&looks, serving.chain(), OffsetDateTime::now_utc());
            watching.tell(trust, &mut told);
        }
        sleep(INTERVAL).await;
    }
}

/// Whether a chain is trusted by what was last seen.
fn judge(looks: &Looks, chain: &[CertificateDer<'_>], now: OffsetDateTime) -> Trust {
    worst(looks.last().map(|(name, seen)| match seen {
        Ok(configuration) if configuration.goes_by_the_hosts_cas() => {
            Trust::Unknown("it goes by the CAs of the API server's host".to_owned())
        }
        seen => name.trust(seen, chain, now),
    }))
}

impl Watching {
    fn tell(&self, trust: Trust, told: &mut Told) {
        self.metrics.set_trusted(match &trust {
            Trust::Trusted => Some(true),
            Trust::Distrusted(_) => Some(false),
            Trust::Unknown(_) => None,
        });
        let state = match trust {
            Trust::Trusted | Trust::Unknown(_) => Ok(()),
            Trust::Distrusted(why) => Err(format!("is not trusted: {why}")),
        };
        told.tell("the certificate that is served", state);
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;
    use crate::certs::{self, read};
    use crate::controller::call::Failed;
    use crate::controller::certificates::configuration::{Configuration, Kind};

    #[test]
    fn while_the_api_server_is_away_trust_goes_by_what_was_last_seen_and_by_the_clock() {
        let day = time::Duration::DAY;
        let made = certs::generate(&["127.0.0.1".to_owned()], day).unwrap();
        let chain = read::certificates(made.certificate.as_bytes()).0;
        let chain = [chain[0].der.clone()];
        let mut looks = Looks::new(vec![ConfigurationName {
            kind: Kind::Mutating,
            name: "zonewise".to_owned(),
        }]);
        let now = OffsetDateTime::now_utc();
        assert!(matches!(judge(&looks, &chain, now), Trust::Unknown(_)));
        let client =
            json!({"url": "https://127.0.0.1:1/mutate", "caBundle": STANDARD.encode(&made.ca)});
        let webhook = json!({"name": "a.zonewise.dev", "clientConfig": client});
        looks.note(vec![Ok(Configuration::read(
            &json!({"webhooks": [webhook]}),
        ))]);
        assert_eq!(judge(&looks, &chain, now), Trust::Trusted);
        looks.note(vec![Err(Failed::Unanswered("scripted".to_owned()))]);
        assert_eq!(judge(&looks, &chain, now), Trust::Trusted);
        let over = judge(&looks, &chain, now + day * 2);
        assert!(matches!(over, Trust::Distrusted(_)), "{over:?}");
    }
}
