//! The ticket that an appender gets: the outcome of its append, once there is one.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::super::error::AppendError;
use super::super::position::Position;
use crate::locking::lock;

/// The outcome of an append. Await it, or wait for it in a thread. Dropping it takes nothing back.
#[must_use = "an append is acknowledged only when its ticket says so"]
pub struct Ticket {
    group: Arc<Group>,
    place: u32,
}

/// Appends that share one write, and one outcome unless the disk is full.
#[derive(Default)]
struct Group {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    /// Those that are to be woken, by their place in the group. A ticket has one at most.
    wakers: BTreeMap<u32, Waker>,
}

/// The outcome of a group of appends.
pub(super) enum Outcome {
    /// All are stored, the first of them here.
    Stored(Position),
    /// None is stored.
    Failed(AppendError),
    /// Those with a position are stored, the others are not.
    Some(Vec<Option<Position>>, AppendError),
}

impl Outcome {
    fn of(&self, place: u32) -> Result<Position, AppendError> {
        match self {
            Self::Stored(first) => Ok(Position(first.0 + u64::from(place))),
            Self::Failed(error) => Err(error.clone()),
            Self::Some(stored, error) => {
                stored.get(place as usize).copied().flatten().ok_or_else(|| error.clone())
            }
        }
    }
}

/// The duty to tell a group its outcome. Dropping it without one tells that nothing was stored.
#[derive(Default)]
pub(super) struct Promise {
    group: Arc<Group>,
}

impl Promise {
    /// The ticket of the append at `place`.
    pub(super) fn ticket(&self, place: u32) -> Ticket {
        Ticket { group: self.group.clone(), place }
    }

    /// Tells the outcome to all. Only the first counts.
    pub(super) fn finish(&self, outcome: Outcome) {
        let wakers = {
            let mut state = lock(&self.group.state);
            state.outcome.get_or_insert(outcome);
            std::mem::take(&mut state.wakers)
        };
        self.group.done.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.finish(Outcome::Failed(AppendError::Closed));
    }
}

impl Ticket {
    /// Waits in this thread. Returns the position of the record.
    ///
    /// # Errors
    /// The message was not stored.
    pub fn wait(self) -> Result<Position, AppendError> {
        let mut state = lock(&self.group.state);
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.of(self.place);
            }
            state = self.group.done.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Returns the outcome, if there is one already.
    pub fn outcome(&self) -> Option<Result<Position, AppendError>> {
        self.state().outcome.as_ref().map(|outcome| outcome.of(self.place))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.group.state)
    }
}

impl Future for Ticket {
    type Output = Result<Position, AppendError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.of(self.place));
        }
        state.wakers.insert(self.place, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.state().wakers.remove(&self.place);
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("outcome", &self.outcome()).finish()
    }
}
