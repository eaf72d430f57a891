//! A configuration file that is read again when it was saved.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long a folder must be quiet before the file in it is looked at: editors write in several steps.
const QUIET: Duration = Duration::from_millis(300);
/// The longest that a folder which is never quiet is waited for.
const RESTLESS: Duration = Duration::from_secs(3);
/// The longest file that is compared, in bytes. A longer one counts as changed.
const LONGEST: u64 = 64 << 20;

/// A file that is watched. Its folder is: editors put a new file in place of the old one, and so do those who deploy.
#[derive(Debug)]
pub(crate) struct Watch {
    file: PathBuf,
    /// The content of the file when it was last looked at.
    known: Option<Vec<u8>>,
    changes: mpsc::Receiver<()>,
    /// When it will be looked at, and the latest moment for that.
    due: Option<(Instant, Instant)>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Watches a file from now on.
    ///
    /// # Errors
    /// The system does not watch its folder.
    pub(crate) fn begin(file: &Path) -> io::Result<Self> {
        // One that waits says as much as many.
        let (send, changes) = mpsc::channel(1);
        let failed = |error: notify::Error| io::Error::other(error.to_string());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // To read the file is no change. After an error, such as too many changes, it is looked at.
            if !matches!(event, Ok(Event { kind: EventKind::Access(_), .. })) {
                send.try_send(()).ok();
            }
        })
        .map_err(failed)?;
        let file = std::path::absolute(file)?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(failed)?;
        let known = read(&file);
        Ok(Self { file, known, changes, due: None, _watcher: watcher })
    }

    /// Waits until the file holds something else. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        loop {
            let due = self.due.map(|(due, latest)| due.min(latest));
            tokio::select! {
                changed = self.changes.recv() => {
                    if changed.is_none() {
                        return std::future::pending().await;
                    }
                    let now = Instant::now();
                    let latest = self.due.map_or(now + RESTLESS, |(_, latest)| latest);
                    self.due = Some((now + QUIET, latest));
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.due = None;
                    if self.look() {
                        return;
                    }
                }
            }
        }
    }

    /// The file is read now. Returns whether it holds something else than before. One that is missing has not changed.
    pub(crate) fn look(&mut self) -> bool {
        let now = read(&self.file);
        let differs = now.is_some() && now != self.known;
        if differs {
            self.known = now;
        }
        differs
    }
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let length = std::fs::metadata(file).ok()?.len();
    // Only its length is compared.
    if length > LONGEST {
        return Some(length.to_be_bytes().to_vec());
    }
    std::fs::read(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than anything takes on a slow machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    #[tokio::test]
    async fn a_file_that_is_written_or_replaced_has_changed_once() {
        let folder = Folder(std::env::temp_dir().join(format!("whimbrel-watch-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).unwrap();
        let file = folder.0.join("x.toml");
        std::fs::write(&file, "one").unwrap();
        let mut watch = Watch::begin(&file).unwrap();
        let quiet = async |watch: &mut Watch| tokio::time::timeout(2 * QUIET, watch.changed()).await.is_err();
        // Neither a neighbour nor the same again.
        std::fs::write(folder.0.join("neighbour"), "x").unwrap();
        std::fs::write(&file, "one").unwrap();
        assert!(quiet(&mut watch).await);
        std::fs::write(&file, "two").unwrap();
        tokio::time::timeout(PATIENCE, watch.changed()).await.unwrap();
        std::fs::write(folder.0.join("x.toml~"), "three").unwrap();
        std::fs::rename(folder.0.join("x.toml~"), &file).unwrap();
        tokio::time::timeout(PATIENCE, watch.changed()).await.unwrap();
        // A file that is gone for a moment is no change, and what was read otherwise is known.
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "four").unwrap();
        assert!(watch.look());
        assert!(quiet(&mut watch).await);
    }
}
