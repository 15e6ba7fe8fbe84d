//! A candidate with a way of its own.

use std::time::Duration;

use tokio::task::JoinHandle;
use zonewise::controller::lease::{self, Candidate, Claim, LeaseSettings};

use crate::api_server::lease::{Store, Way};

pub struct Replica {
    pub way: Way,
    pub candidate: Candidate,
    pub claim: Claim,
    pub identity: String,
    campaign: JoinHandle<()>,
}

impl Replica {
    /// One that campaigns with short times.
    pub fn start(store: &Store, name: &str) -> Self {
        Self::start_with(store, quick(name))
    }

    /// One that campaigns.
    pub fn start_with(store: &Store, settings: LeaseSettings) -> Self {
        let way = Way::to(store);
        let url = format!("http://127.0.0.1:{}", way.port());
        let config = kube::Config::new(url.parse().expect("a URL"));
        let client = lease::client(config, &settings).expect("a client");
        let identity = settings.identity().to_owned();
        let candidate = Candidate::new(client, settings);
        Self {
            way,
            claim: candidate.claim(),
            identity,
            campaign: tokio::spawn(candidate.clone().campaign()),
            candidate,
        }
    }

    /// As when the process is killed.
    pub fn kill(&self) {
        self.campaign.abort();
    }

    /// Whether the campaign goes on, as it always should.
    pub fn campaigns(&self) -> bool {
        !self.campaign.is_finished()
    }
}

/// A lease of 1.5 s, a claim of 1 s, a try each 200 ms.
pub fn quick(name: &str) -> LeaseSettings {
    let times = [1500, 1000, 200].map(Duration::from_millis);
    with_times(name, times)
}

/// These times: lease, claim, retry.
pub fn with_times(name: &str, [lease, claim, retry]: [Duration; 3]) -> LeaseSettings {
    let settings = LeaseSettings::new("zonewise-system", "zonewise", name);
    settings
        .with_times(lease, claim, retry)
        .expect("times that go together")
}
