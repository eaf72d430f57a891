//! Why a coverage or a state cannot be used.

use std::io;
use std::path::PathBuf;

use super::state::ClusterId;

/// Why a coverage cannot be read or added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoverageError {
    /// The bytes were damaged, or are no coverage.
    #[error("the coverage is damaged")]
    Damaged,
    /// It was written by a newer version.
    #[error("the coverage has version {0}, which is newer than this program knows")]
    Newer(u8),
    /// It is longer than allowed.
    #[error("the coverage has {0} bytes; at most 49,149 are allowed")]
    TooLong(usize),
    /// There are too many origins in a channel.
    #[error("the coverage of the channel already has 1,024 origins")]
    TooManyOrigins,
    /// There are too many channels.
    #[error("the coverage already has 64 channels")]
    TooManyChannels,
}

/// Why the file of a subscription's state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file cannot be opened, read or written.
    #[error("cannot use the state {}: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Another process uses the file.
    #[error("{}: another subscriber uses this state; stop it, or give this one a file of its own", .0.display())]
    InUse(PathBuf),
    /// The file is no state, or was damaged.
    #[error("{}: the state is damaged; remove the file to start over, without what was missed", .0.display())]
    Damaged(PathBuf),
    /// The file was written by a newer version.
    #[error("{}: the state has version {version}; this program knows up to 1: update it", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u16,
    },
    /// The state belongs to another cluster.
    #[error("{}: the state belongs to cluster {found}, but the broker belongs to cluster {expected}: give each cluster a file of its own", file.display())]
    OtherCluster {
        /// The file.
        file: PathBuf,
        /// The cluster of the state.
        found: ClusterId,
        /// The cluster of the broker.
        expected: ClusterId,
    },
}
