//! What changed in the store, for whoever acts on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::key::Key;

/// What changed since it was last asked. Nothing is gathered until somebody asks for the first time.
#[derive(Debug, Default)]
pub struct Changes {
    wanted: AtomicBool,
    gathered: Mutex<Changed>,
    wake: Notify,
}

/// Changes of some time.
#[derive(Debug, Default)]
pub struct Changed {
    /// Services (`namespace/name`) that changed, or slices of theirs.
    pub services: HashMap<Box<str>, ServiceChange>,
    /// Whether capacity changed.
    pub capacity: bool,
}

/// What changed about a Service.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ServiceChange {
    /// Writes of slices, in order: the name of each, and the version that it got; nothing where it was deleted.
    pub written: Vec<(Box<str>, Option<Key>)>,
}

impl Changes {
    /// Begins to gather; what was before is not told.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Takes what was gathered.
    pub fn take(&self) -> Changed {
        std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there is something to take.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    fn note(&self, change: impl FnOnce(&mut Changed)) {
        if self.wanted.load(Ordering::Acquire) {
            change(&mut self.gathered.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_one();
        }
    }

    pub(super) fn note_capacity(&self) {
        self.note(|changed| changed.capacity = true);
    }

    pub(super) fn note_service(&self, service: &str) {
        self.note(|changed| {
            changed.service(service);
        });
    }

    pub(super) fn note_slice(&self, service: &str, slice: &str, version: Option<Key>) {
        self.note(|changed| {
            let written = &mut changed.service(service).written;
            written.push((slice.into(), version));
        });
    }
}

impl Changed {
    fn service(&mut self, service: &str) -> &mut ServiceChange {
        self.services.entry(service.into()).or_default()
    }
}
