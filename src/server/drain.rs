//! The way to the end: serving, draining, closing.

use tokio::sync::watch;

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// As ever.
    Serving,
    /// New connections and requests are served, each answer being its connection's last.
    Draining,
    /// Nothing new is taken; what has begun is finished.
    Closing,
}

/// The phase as connections see it.
#[derive(Debug, Clone)]
pub struct Drain(watch::Receiver<Phase>);

/// Its other end.
#[derive(Debug)]
pub struct DrainControl(watch::Sender<Phase>);

/// Both ends, serving.
#[must_use]
pub fn channel() -> (DrainControl, Drain) {
    let (sender, receiver) = watch::channel(Phase::Serving);
    (DrainControl(sender), Drain(receiver))
}

impl DrainControl {
    /// Goes on to a phase.
    pub fn enter(&self, phase: Phase) {
        self.0.send_replace(phase);
    }
}

impl Drain {
    /// Whether answers are to be the last of their connections.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.0.borrow() >= Phase::Draining
    }

    /// To wait for a phase, once.
    #[must_use]
    pub fn phase(&self) -> PhaseWait {
        PhaseWait {
            receiver: self.0.clone(),
            reached: false,
        }
    }
}

/// Waits for a phase.
#[derive(Debug)]
pub struct PhaseWait {
    receiver: watch::Receiver<Phase>,
    reached: bool,
}

impl PhaseWait {
    /// Completes when `phase` is reached, and never again.
    pub async fn wait_for(&mut self, phase: Phase) {
        if self.reached || self.receiver.wait_for(|now| *now >= phase).await.is_err() {
            return std::future::pending().await;
        }
        self.reached = true;
    }
}
