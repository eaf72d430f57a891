//! The wait until changes are on disk.

use tokio::sync::watch;

use super::error::MetaError;

/// How far changes were written: by the number of the last round, with its outcome.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) outcome: Option<MetaError>,
}

/// Tells when changes that were made are on disk. It needs no runtime.
#[derive(Clone, Debug)]
pub struct Written {
    round: u64,
    rounds: watch::Receiver<Round>,
}

impl Written {
    pub(super) fn new(round: u64, rounds: watch::Receiver<Round>) -> Self {
        Self { round, rounds }
    }

    /// Waits until the outcome is known. Dropping it loses nothing.
    pub async fn known(&mut self) {
        let round = self.round;
        // Whoever closes the database writes first.
        self.rounds.wait_for(|last| last.number >= round).await.ok();
    }

    /// Returns the outcome, if it is known. After an error the changes wait on, and are tried again.
    pub fn outcome(&self) -> Option<Result<(), MetaError>> {
        let last = self.rounds.borrow();
        if last.number >= self.round {
            return Some(last.outcome.clone().map_or(Ok(()), Err));
        }
        let is_closed = self.rounds.has_changed().is_err();
        is_closed.then_some(Err(MetaError::Closed))
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// The changes could not be written. They wait on, and are tried again.
    pub async fn done(mut self) -> Result<(), MetaError> {
        self.known().await;
        self.outcome().unwrap_or(Err(MetaError::Closed))
    }
}
