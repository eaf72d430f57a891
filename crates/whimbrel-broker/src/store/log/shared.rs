//! The state that handles of a log and its writer share.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use whimbrel_pubsub::message::ChannelId;

use super::handles::Handles;
use super::index::Runs;
use super::listener::Listener;
use super::queue::Queue;
use super::segments::{Full, Segments};
use crate::locking::lock;
use crate::store::disk::Disk;
use crate::store::error::{Damage, Notice, StoreError};
use crate::store::settings::LogSettings;

/// The state that handles and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) channel: ChannelId,
    pub(super) folder: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: LogSettings,
    pub(super) queue: Queue,
    pub(super) segments: Mutex<Segments>,
    pub(super) handles: Handles,
    /// Held while segments are removed.
    pub(super) trimming: Mutex<()>,
    pub(super) notices: Vec<Notice>,
    pub(super) groups: AtomicU64,
    pub(super) listener: Listener,
}

impl Shared {
    pub(super) fn segment_bytes(&self) -> u32 {
        self.settings.segment_bytes.clamp(4 << 10, 1 << 30)
    }

    /// The index of a full segment; `None` if the segment was trimmed meanwhile.
    pub(super) fn index(&self, full: &Full) -> Result<Option<Arc<Runs>>, StoreError> {
        match self.handles.index(full) {
            Ok(Some(runs)) => Ok(Some(runs)),
            Ok(None) => Err(StoreError::Damaged(Damage {
                file: full.file.clone(),
                offset: full.summary.runs.into(),
                why: "the segment's index is corrupt",
                resume: None,
            })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !self.has(full.opening.first) => {
                Ok(None)
            }
            Err(error) => Err(StoreError::io(&full.file, error)),
        }
    }

    /// Whether the segment whose first message has this position is there.
    pub(super) fn has(&self, first: u64) -> bool {
        let segments = lock(&self.segments);
        let is_full = segments.full.binary_search_by_key(&first, |full| full.opening.first).is_ok();
        is_full || segments.active.as_ref().is_some_and(|active| active.opening.first == first)
    }
}
