//! How much of the processor recoveries may take while there are live deliveries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Recoveries read in turns, the one that has waited the longest first. While live deliveries are made, they pause between two turns for
/// three times as long as the turn took, so that they get a quarter.
#[derive(Debug)]
pub struct Turns {
    one: Semaphore,
    live: AtomicU64,
}

/// A recovery's turn.
#[derive(Debug)]
pub struct Turn<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    live: u64,
}

/// For each part of time that recoveries take, live deliveries get so many.
const PAUSE: u32 = 3;

impl Default for Turns {
    fn default() -> Self {
        Self { one: Semaphore::new(1), live: AtomicU64::new(0) }
    }
}

impl Turns {
    /// A live delivery was made.
    pub(super) fn on_live(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a turn to recover.
    pub async fn begin(&self) -> Turn<'_> {
        let permit = self.one.acquire().await.ok();
        Turn { _permit: permit, live: self.live.load(Ordering::Relaxed) }
    }

    /// Ends a turn that took `took`.
    pub async fn end(&self, turn: Turn<'_>, took: Duration) {
        if self.live.load(Ordering::Relaxed) != turn.live {
            tokio::time::sleep(took * PAUSE).await;
        }
    }
}
