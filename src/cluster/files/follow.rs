//! Files that are read again when they change.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::source::expand;
use super::{FileError, LeanObjects};
use crate::cluster::store::Writer;
use crate::file_watch::FileWatch;

/// Takes in files again whenever they change, for as long as the process lives. What can't be read changes nothing.
pub async fn follow(paths: Vec<PathBuf>, read: Signature, mut writer: Writer) {
    let mut watch = FileWatch::new(&paths);
    let mut last = LastRead {
        signature: read,
        told: None,
    };
    loop {
        let now = Timestamp::now();
        let due = writer
            .settle(now)
            .and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        // Files may be large, or pipes that wait for their writer: no request waits with them.
        let from = paths.clone();
        let again = tokio::task::spawn_blocking(move || {
            last.look_again(&from, LeanObjects::read, &mut writer);
            (last, writer)
        });
        match again.await {
            Ok(back) => (last, writer) = back,
            Err(error) => return tracing::error!(%error, "reading the files failed"),
        }
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep(due.unwrap_or(Duration::from_hours(1))) => {}
        }
    }
}

/// How the files were when they were last looked at.
#[derive(Debug)]
struct LastRead {
    signature: Signature,
    /// The failure to read that was last told of, if they could not be read.
    told: Option<String>,
}

impl LastRead {
    fn look_again(
        &mut self,
        paths: &[PathBuf],
        read: impl FnOnce(&[PathBuf]) -> Result<LeanObjects, FileError>,
        writer: &mut Writer,
    ) {
        let now_there = Signature::of(paths);
        if now_there == self.signature {
            self.told = None;
            return;
        }
        match read(paths) {
            Ok(objects) => {
                objects.apply(writer, Timestamp::now());
                tracing::info!("the files are read again");
                self.told = None;
            }
            Err(error) => {
                let told = self.told.replace(error.to_string());
                if told != self.told {
                    tracing::warn!(%error, "the files can't be read; what they said before stays");
                }
                // They may be the same when they can be read, so they have not been seen yet.
                if matches!(error, FileError::Read { .. }) {
                    return;
                }
            }
        }
        self.signature = now_there;
    }
}

/// What tells a changed file without reading it: its inode, length and time of change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature(Vec<(PathBuf, Option<FileState>)>);

/// Inode, length, and time of change in seconds and nanoseconds.
type FileState = (u64, u64, i64, i64);

impl Signature {
    /// That of the files that are there now.
    #[must_use]
    pub fn of(paths: &[PathBuf]) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let files = paths
            .iter()
            .flat_map(|path| expand(path).unwrap_or_else(|_| vec![path.clone()]));
        let signature = |file: PathBuf| {
            let metadata = std::fs::metadata(&file).ok();
            let signature = metadata.map(|m| (m.ino(), m.len(), m.ctime(), m.ctime_nsec()));
            (file, signature)
        };
        Self(files.map(signature).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::store::StoreRules;

    #[test]
    fn a_change_that_could_not_be_read_is_read_when_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("cluster.yaml")];
        std::fs::write(&paths[0], "kind: Service\nmetadata: {name: web}\n").unwrap();
        let mut writer = Writer::new(StoreRules::default());
        let mut last = LastRead {
            signature: Signature(Vec::new()),
            told: None,
        };
        for _ in 0..2 {
            let fails = |paths: &[PathBuf]| {
                Err(FileError::Read {
                    path: paths[0].clone(),
                    source: std::io::ErrorKind::Interrupted.into(),
                })
            };
            last.look_again(&paths, fails, &mut writer);
            assert!(writer.cluster().service_names().is_empty());
        }
        last.look_again(&paths, LeanObjects::read, &mut writer);
        assert_eq!(writer.cluster().service_names(), ["default/web".into()]);
        last.look_again(&paths, |_| panic!("nothing changed"), &mut writer);
    }
}
