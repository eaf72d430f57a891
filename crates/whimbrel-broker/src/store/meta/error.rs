//! Why the database cannot be used or does not take something.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use whimbrel_pubsub::coverage::CoverageError;

use super::super::error::StoreError;
use super::subscription::SubscriptionName;

/// Why the database cannot be used, or does not take something.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// A file cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database is damaged.
    #[error("{}: the database is damaged: {why}. It was not changed. Restore it from a copy; without one, move it away: \
        durable subscriptions then start over, last values are forgotten, and messages stay", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// A description of the damage.
        why: String,
    },
    /// The database cannot be written.
    #[error("{}: the database cannot be written: {error}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: Arc<redb::Error>,
    },
    /// The database is being closed.
    #[error("the database is closed")]
    Closed,
    /// There is no such subscription.
    #[error("there is no durable subscription {0}")]
    Unknown(SubscriptionName),
    /// The subscription belongs to somebody else.
    #[error("the durable subscription {0} belongs to another client; choose another name")]
    Owner(SubscriptionName),
    /// A higher generation is known.
    #[error(
        "the durable subscription {name} was already used with generation {known}, and this is {given}: another client has taken it over"
    )]
    Outdated {
        /// The subscription.
        name: SubscriptionName,
        /// The generation that was given.
        given: u64,
        /// The highest generation that is known.
        known: u64,
    },
    /// A name cannot be used.
    #[error("a durable subscription's name must have 1 to 255 bytes and no control characters")]
    Name,
    /// A part of a subscription is too long.
    #[error("the {what} has {bytes} bytes; at most {most} are allowed")]
    TooLong {
        /// The part.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// There are too many of something.
    #[error("there are already {most} {what}")]
    TooMany {
        /// The kind of entry.
        what: &'static str,
        /// How many.
        most: usize,
    },
    /// The coverage is full.
    #[error(transparent)]
    Coverage(#[from] CoverageError),
}

impl MetaError {
    pub(super) fn damaged(file: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), why: why.into() }
    }
}
