//! A replica that posts events, without the rest of the program.

use std::sync::Arc;
use std::time::Duration;

use super::wait::eventually;
use kube::Client;
use tokio::task::JoinHandle;
use zonewise::cluster::slice::AddressType;
use zonewise::controller::events::{Events, Outcome, Pace, ServiceSet, State};

/// A replica that leads until the end of the test.
pub struct Leader {
    pub events: Arc<Events>,
    pub running: JoinHandle<()>,
}

impl Leader {
    pub fn begin(client: Client, pace: Pace) -> Self {
        Self::begin_while(client, pace, || true)
    }

    /// One whose claim is asked for before each write.
    pub fn begin_while(
        client: Client,
        pace: Pace,
        may_write: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let events = Arc::new(Events::new(client, "zonewise-0", pace));
        let leading = events.clone();
        let may_write = move || may_write().then_some(());
        let running = tokio::spawn(async move { leading.run(may_write).await });
        Self { events, running }
    }

    pub fn sees(&self, service: &ServiceSet, state: &State, sentence: &str) {
        let sentence = || sentence.to_owned();
        self.events
            .observe(service.clone(), state.clone(), sentence);
    }

    /// How many writes were posted, existed, were refused, failed.
    pub fn counts(&self) -> [u64; 4] {
        Outcome::ALL.map(|outcome| self.events.counts().of(outcome))
    }

    pub async fn counted(&self, wanted: [u64; 4]) {
        eventually("the writes are counted", async || {
            let counts = self.counts();
            if counts == wanted {
                Ok(())
            } else {
                Err(format!("{counts:?} instead of {wanted:?}"))
            }
        })
        .await;
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.running.abort();
    }
}

pub fn set(namespace: &str, name: &str, uid: &str) -> ServiceSet {
    ServiceSet {
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
        address_type: AddressType::Ipv4,
    }
}

pub fn disabled(word: &'static str) -> State {
    State::Disabled(word.into())
}

/// Without the gap of real clusters.
pub fn quick() -> Pace {
    Pace {
        gap: Duration::ZERO,
        ..Pace::default()
    }
}
