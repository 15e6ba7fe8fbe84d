//! Notices of changed files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// How often to look when no notice comes: some volumes send none.
const POLL: Duration = Duration::from_secs(5);

/// How long to let a burst of changes come to its end.
const SETTLE: Duration = Duration::from_millis(50);

fn is_only_read(kind: EventKind) -> bool {
    const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
    kind.is_access() && kind != WRITTEN
}

/// Tells when files may have changed.
///
/// Folders are watched rather than files: a Secret or ConfigMap volume changes by swapping the link `..data`, which a
/// watch on a file misses, and a file that is gone for a while comes back unseen.
#[derive(Debug)]
pub struct FileWatch {
    notices: mpsc::Receiver<()>,
    /// Lives as long as the watch; without it there is only the polling.
    _watcher: Option<RecommendedWatcher>,
}

impl FileWatch {
    /// Watches files, and folders for the files in them.
    #[must_use]
    pub fn new(paths: &[PathBuf]) -> Self {
        let (sender, notices) = mpsc::channel(1);
        // A full channel already holds a notice.
        let wake = move |event: notify::Result<notify::Event>| {
            // Reading is an event too, and would wake its own reader for ever.
            if !event.is_ok_and(|event| is_only_read(event.kind)) {
                let _ = sender.try_send(());
            }
        };
        let mut watcher = notify::recommended_watcher(wake).ok();
        for path in paths {
            let folder = if path.is_dir() {
                path
            } else {
                path.parent().unwrap_or(path)
            };
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            let watching = watcher
                .as_mut()
                .is_some_and(|w| w.watch(folder, RecursiveMode::NonRecursive).is_ok());
            if !watching {
                tracing::warn!(folder = %folder.display(), "can't be watched; looked at every 5 s instead");
            }
        }
        Self {
            notices,
            _watcher: watcher,
        }
    }

    /// Waits until something may have changed.
    pub async fn changed(&mut self) {
        tokio::select! {
            notice = self.notices.recv() => {
                // Without a watcher there is never a notice.
                let pause = if notice.is_some() { SETTLE } else { POLL };
                tokio::time::sleep(pause).await;
            }
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn reading_a_file_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.yaml");
        std::fs::write(&file, "one").unwrap();
        let (sender, events) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(sender).unwrap();
        watcher
            .watch(folder.path(), RecursiveMode::NonRecursive)
            .unwrap();
        for _ in 0..3 {
            std::fs::read(&file).unwrap();
        }
        // Events come in their order, so the first that is a change tells of this.
        std::fs::remove_file(&file).unwrap();
        let kinds = std::iter::from_fn(|| events.recv_timeout(PATIENCE).ok());
        let mut changes = kinds
            .map(|event| event.unwrap().kind)
            .filter(|kind| !is_only_read(*kind));
        let first = changes.next().unwrap();
        assert!(first.is_remove() || first.is_modify(), "{first:?}");
    }

    #[tokio::test]
    async fn a_change_wakes_before_anyone_looks_by_himself() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.yaml");
        let mut watch = FileWatch::new(std::slice::from_ref(&file));
        std::fs::write(&file, "one").unwrap();
        let notice = tokio::time::timeout(PATIENCE, watch.notices.recv()).await;
        assert_eq!(notice, Ok(Some(())));
    }
}
