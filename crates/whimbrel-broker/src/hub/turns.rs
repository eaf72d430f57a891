//! The share of the processor that recoveries may take while there are live deliveries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Recoveries read in turns, the one that has waited the longest first. While live deliveries are made, they pause between two turns for
/// three times as long as the turn took, so that they get a quarter.
///
/// A timer is late by a millisecond, and most turns take far less. So what turns owe is added up, and then paused for at once.
#[derive(Debug)]
pub struct Turns {
    one: Semaphore,
    live: AtomicU64,
    /// The pause that is owed, in nanoseconds. Only who has the turn changes it.
    owed: AtomicU64,
}

/// A recovery's turn.
#[derive(Debug)]
pub struct Turn<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    live: u64,
}

/// For each part of time that recoveries take, live deliveries get so many.
const PAUSE: u32 = 3;
/// The shortest pause.
const SHORTEST: Duration = Duration::from_millis(4);

impl Default for Turns {
    fn default() -> Self {
        Self { one: Semaphore::new(1), live: AtomicU64::new(0), owed: AtomicU64::new(0) }
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
        if self.live.load(Ordering::Relaxed) == turn.live {
            return;
        }
        let owed = Duration::from_nanos(self.owed.load(Ordering::Relaxed)) + took * PAUSE;
        let is_due = owed >= SHORTEST;
        let left = if is_due { Duration::ZERO } else { owed };
        self.owed.store(left.as_nanos() as u64, Ordering::Relaxed);
        if is_due {
            tokio::time::sleep(owed).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Takes a turn, during which a live delivery is made. Returns whether it ends without a pause.
    async fn is_short(turns: &Turns, took: Duration) -> bool {
        let turn = turns.begin().await;
        turns.on_live();
        let mut end = pin!(turns.end(turn, took));
        end.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[tokio::test]
    async fn short_turns_pause_together() {
        let turns = Turns::default();
        let took = SHORTEST / PAUSE / 10;
        for number in 0..30 {
            let expected = number % 11 != 10;
            assert_eq!(is_short(&turns, took).await, expected, "turn {number}");
        }
        assert!(!is_short(&turns, SHORTEST).await, "a long one pauses by itself");
    }

    #[tokio::test]
    async fn without_live_deliveries_nothing_pauses() {
        let turns = Turns::default();
        let turn = turns.begin().await;
        let mut end = pin!(turns.end(turn, Duration::from_secs(9)));
        assert!(end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
