//! When the next question about an origin is due, and whose turn it is to be asked.

use std::time::Duration;

use crate::Time;

/// The questions about one origin.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// When the next is due; `None` while nothing is missing.
    due: Option<Due>,
    turn: usize,
    /// The time between two questions, as a power of two of the first.
    backoff: u32,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    /// As soon as the gap has been there for the usual time.
    After(Time),
    At(Time),
}

impl Asking {
    /// A gap appeared.
    pub(super) fn on_gap(&mut self, now: Time) {
        if self.due.is_none() {
            self.due = Some(Due::After(now));
        }
    }

    /// Something came, so the next question need not wait long.
    pub(super) fn on_progress(&mut self, now: Time) {
        if self.due.is_some() && self.backoff > 0 {
            (self.backoff, self.due) = (0, Some(Due::After(now)));
        }
    }

    /// Somebody waits for what is missing.
    pub(super) fn at_once(&mut self, now: Time) {
        (self.backoff, self.due) = (0, Some(Due::At(now)));
    }

    pub(super) fn is_due(&self, after: Duration, now: Time) -> bool {
        match self.due {
            None => false,
            Some(Due::After(since)) => since + after <= now,
            Some(Due::At(at)) => at <= now,
        }
    }

    /// Takes the next turn among `candidates`.
    pub(super) fn ask(&mut self, candidates: usize, first: Duration, most: Duration, now: Time) -> usize {
        let turn = self.turn % candidates;
        self.turn = turn + 1;
        let wait = first.saturating_mul(1 << self.backoff.min(16)).min(most / candidates as u32);
        // Everybody is asked once before the wait grows.
        if self.turn == candidates {
            self.backoff = (self.backoff + 1).min(16);
        }
        self.due = Some(Due::At(now + wait));
        turn
    }
}
