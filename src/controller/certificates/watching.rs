//! Whether webhook configurations trust a certificate that comes from files: looked at, and no more.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use time::OffsetDateTime;
use tokio::time::sleep;

use super::configuration::{ConfigurationName, Trust, worst};
use super::metrics::CertificateMetrics;
use super::told::Told;
use crate::certs::serving::CurrentCertificate;
use crate::controller::call::Failed;

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
    let mut told = Told::default();
    loop {
        if let Some(trust) = watching.look().await {
            watching.metrics.set_trusted(match &trust {
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
        sleep(INTERVAL).await;
    }
}

impl Watching {
    /// Nothing if the API server could not be asked.
    async fn look(&self) -> Option<Trust> {
        let serving = self.current.get()?;
        let now = OffsetDateTime::now_utc();
        let mut judged = Vec::new();
        for name in &self.configurations {
            let read = name.get(&self.client).await;
            judged.push(match &read {
                Ok(configuration) if configuration.goes_by_the_hosts_cas() => {
                    Trust::Unknown("it goes by the CAs of the API server's host".to_owned())
                }
                Ok(_) | Err(Failed::Absent) => name.trust(&read, serving.chain(), now),
                Err(_) => return None,
            });
        }
        Some(worst(judged.into_iter()))
    }
}
