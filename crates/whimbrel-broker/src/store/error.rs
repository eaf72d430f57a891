//! The errors of a store, and the notices that it gives unasked.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whimbrel_pubsub::message::ChannelId;

use super::position::Position;

/// Why a store or a log cannot be opened or read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or folder cannot be used.
    #[error("cannot use {}: {error}; if it is the wrong place, name another `folder` under [store]", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// The cause.
        error: Arc<io::Error>,
    },
    /// Another process uses the folder.
    #[error("{}: another broker uses this folder; stop it, or give this one a folder of its own", .0.display())]
    InUse(PathBuf),
    /// A file is damaged where it was safe on disk.
    #[error("{0}")]
    Damaged(Damage),
    /// A file was written by a newer version.
    #[error("{}: the file has version {version}; this program knows up to {known}: update it", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u16,
        /// The latest version that is known.
        known: u16,
    },
    /// A file belongs elsewhere.
    #[error("{}: the segment is {found}, but its location says {expected}; move it back to where it was", file.display())]
    Misplaced {
        /// The file.
        file: PathBuf,
        /// The segment that the file says it is.
        found: String,
        /// The segment that its name and folder say it is.
        expected: String,
    },
    /// There are too many durable channels.
    #[error("the store already has {0} logs; merge some durable channels")]
    TooManyLogs(usize),
}

impl StoreError {
    pub(super) fn io(file: &Path, error: io::Error) -> Self {
        Self::Io { file: file.to_owned(), error: Arc::new(error) }
    }
}

/// Damage of a file, behind which there is something that was written later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The offset at which the damage begins.
    pub offset: u64,
    /// A description of the damage.
    pub why: &'static str,
    /// The offset at which reading can continue behind it. What lies between is lost, at most 128 messages.
    pub resume: Option<Position>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: damaged at byte {}: {}. The disk may be failing. Restore the file from a copy, or salvage what can be read of it",
            self.file.display(),
            self.offset,
            self.why
        )
    }
}

/// Why a message was not appended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Too much waits to be written.
    #[error("the log is busy: {0} bytes are waiting to be written; try again when earlier appends are done")]
    Busy(usize),
    /// The disk is full.
    #[error("the disk is full, and the message was not stored: {0}; free some space, and publish it again")]
    Full(Arc<io::Error>),
    /// The log takes nothing any more: an earlier write or synchronisation failed, and nobody knows what of it is on disk.
    #[error("the log accepts no messages until it is reopened: {0}")]
    Broken(Arc<io::Error>),
    /// The log is being closed.
    #[error("the log is closed")]
    Closed,
    /// The message is longer than a message may be.
    #[error("the message has {0} bytes; at most 16 MiB are allowed")]
    TooLong(usize),
}

/// Something that was found and put right when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The last write had not been finished. It had not been acknowledged, unless `sync` allowed that.
    Cut {
        /// The file.
        file: PathBuf,
        /// The offset at which it was cut.
        offset: u64,
        /// The bytes that were cut off.
        bytes: u64,
    },
    /// The index at the end of a full segment was damaged or missing, and was made anew from the records.
    Reindexed {
        /// The file.
        file: PathBuf,
    },
    /// A file that is no segment was left alone.
    Ignored {
        /// The file.
        file: PathBuf,
    },
    /// Segments between others are missing.
    Missing {
        /// The channel.
        channel: ChannelId,
        /// The first missing position.
        first: u64,
        /// The last missing position.
        last: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { file, offset, bytes } => write!(
                f,
                "{}: the last write was not finished; {bytes} bytes from byte {offset} on were cut off",
                file.display()
            ),
            Self::Reindexed { file } => {
                write!(f, "{}: the segment's index was damaged and has been rebuilt", file.display())
            }
            Self::Ignored { file } => {
                write!(f, "{}: the file is not a segment and was ignored", file.display())
            }
            Self::Missing { channel, first, last } => write!(
                f,
                "channel {}: the messages at positions {first} to {last} are missing; somebody removed their segments",
                channel.0
            ),
        }
    }
}
