//! Slices that are written all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::interval;

use super::stage::Stage;
use crate::support::endpoint::spread;
use crate::support::objects;
use crate::support::wait::eventually;

/// Waits until the API server has slices hinted.
pub async fn calls_go_through(stage: &Stage) {
    eventually("slices are hinted", async || {
        is_hinted(&write_once(stage).await?)
    })
    .await;
}

/// Has a slice written that is not stored; as it would be.
pub async fn write_once(stage: &Stage) -> Result<EndpointSlice, String> {
    stage.service("probe").await;
    let slice = objects::slice("probe", "probe", &spread("10.9.0", [3, 3, 3]), &[]);
    let slices: Api<EndpointSlice> = stage.own();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let stored = slices.create(&dry, &slice).await;
    stored.map_err(|error| error.to_string())
}

fn is_hinted(slice: &EndpointSlice) -> Result<(), String> {
    let mut endpoints = slice.endpoints.iter();
    let hinted = endpoints.all(|endpoint| endpoint.hints.is_some());
    hinted.then_some(()).ok_or_else(|| "no hints".to_owned())
}

/// Writers of slices, until they are asked for what they saw.
pub struct Load {
    began: Instant,
    ended: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Vec<String>>>,
}

const WRITERS: usize = 5;

/// Of each writer: ten a second.
const PAUSE: Duration = Duration::from_millis(100);

impl Load {
    /// Fifty writes a second.
    pub async fn begin(stage: &Stage) -> Self {
        let (ended, written) = (Arc::default(), Arc::default());
        let mut writers = Vec::new();
        for number in 0..WRITERS {
            let name = format!("loaded-{number}");
            stage.service(&name).await;
            let slices: Api<EndpointSlice> = stage.own();
            let _ = slices
                .delete(&name, &kube::api::DeleteParams::default())
                .await;
            let endpoints = spread(&format!("10.8.{number}"), [3, 3, 3]);
            let slice = objects::slice(&name, &name, &endpoints, &[]);
            let created = slices.create(&PostParams::default(), &slice).await;
            created.expect("the slice is created");
            let writer = write(slices, name, Arc::clone(&ended), Arc::clone(&written));
            writers.push(tokio::spawn(writer));
        }
        Self {
            began: Instant::now(),
            ended,
            written,
            writers,
        }
    }

    /// Ends it. How many writes there were, and what was wrong with any.
    ///
    /// # Panics
    /// When there was less than half of what was asked for, or a tenth where other scenes run beside: then there was no load.
    pub async fn end(self) -> (usize, Vec<String>) {
        self.ended.store(true, Ordering::Relaxed);
        let asked = WRITERS as u128 * self.began.elapsed().as_millis() / PAUSE.as_millis();
        let mut faults = Vec::new();
        for writer in self.writers {
            faults.extend(writer.await.expect("a writer does not panic"));
        }
        let written = self.written.load(Ordering::Relaxed);
        assert!(
            written as u128 >= asked / if crate::is_full_size() { 2 } else { 10 },
            "{written} writes, where {asked} were asked for"
        );
        (written, faults)
    }
}

async fn write(
    slices: Api<EndpointSlice>,
    name: String,
    ended: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut pace = interval(PAUSE);
    for turn in 0.. {
        pace.tick().await;
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let patch = json!({"metadata": {"annotations": {"zonewise.test/turn": turn.to_string()}}});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let fault = match slices.patch(&name, &parameters, &patch).await {
            Ok(slice) => is_hinted(&slice).err(),
            Err(error) => Some(error.to_string()),
        };
        faults.extend(fault.map(|fault| format!("{name}, write {turn}: {fault}")));
        written.fetch_add(1, Ordering::Relaxed);
    }
    faults
}
