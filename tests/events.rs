//! Events, as an API server sees them: a scripted one that fails (`faults`) and a real one (`stored`).
//!
//! The latter needs the test control plane (`make controlplane`).

#[path = "events/api_server.rs"]
mod api_server;
#[path = "support/control_plane.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod control_plane;
#[path = "events/faults.rs"]
mod faults;
#[path = "events/stored.rs"]
mod stored;
#[path = "support/wait.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod wait;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use wait::eventually;
use zonewise::cluster::slice::AddressType;
use zonewise::controller::events::{Events, Outcome, Pace, ServiceSet, State};

/// A replica that leads until the end of the test.
struct Leader {
    events: Arc<Events>,
    running: JoinHandle<()>,
}

impl Leader {
    fn begin(client: Client, pace: Pace) -> Self {
        Self::begin_while(client, pace, || true)
    }

    /// One whose claim is asked for before each write.
    fn begin_while(
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

    fn sees(&self, service: &ServiceSet, state: &State, sentence: &str) {
        let sentence = || sentence.to_owned();
        self.events
            .observe(service.clone(), state.clone(), sentence);
    }

    /// How many writes were posted, existed, were refused, failed.
    fn counts(&self) -> [u64; 4] {
        Outcome::ALL.map(|outcome| self.events.counts().of(outcome))
    }

    async fn counted(&self, wanted: [u64; 4]) {
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

fn set(namespace: &str, name: &str, uid: &str) -> ServiceSet {
    ServiceSet {
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
        address_type: AddressType::Ipv4,
    }
}

fn disabled(word: &'static str) -> State {
    State::Disabled(word.into())
}

/// Without the gap of real clusters.
fn quick() -> Pace {
    Pace {
        gap: Duration::ZERO,
        ..Pace::default()
    }
}
