//! The wait before a message is acknowledged.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;
use whimbrel_pubsub::frame::{Refusal, RefusalCode};

use crate::store::{AppendError, Entry, Log, Ticket};

/// Waits until a message is as safe as its channel promises. Dropping it takes nothing back.
#[must_use = "a message of a durable channel is acknowledged only when this says so"]
pub struct Storing(State);

enum State {
    /// Nothing is to be waited for.
    Safe,
    /// It is being written.
    Written(Ticket),
    /// It was published before, and it is being looked for.
    Sought(JoinHandle<Result<Option<Ticket>, AppendError>>),
}

/// Why a message is not taken.
#[derive(Clone, Debug)]
pub enum NotTaken {
    /// Too much waits to be written. It may be tried again at once.
    Busy(Refusal),
    /// It is refused.
    Refused(Refusal),
}

impl Storing {
    pub(super) fn of(ticket: Option<Ticket>) -> Self {
        Self(ticket.map_or(State::Safe, State::Written))
    }

    /// Nothing to wait for.
    pub(crate) fn safe() -> Self {
        Self(State::Safe)
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn is_safe(&self) -> bool {
        matches!(self.0, State::Safe)
    }

    /// Looks for a message that was published before, and appends it if it is not stored: its first append may have failed, or may
    /// still wait.
    pub(super) fn again(log: Log, entry: Entry) -> Self {
        Self(State::Sought(tokio::task::spawn_blocking(move || {
            // If an index cannot be read, one copy too many is better than none.
            match log.find(entry.stamp.origin, entry.stamp.sequence) {
                Ok(Some(_)) => Ok(None),
                _ => log.append(&entry).map(Some),
            }
        })))
    }
}

impl Future for Storing {
    type Output = Result<(), Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            self.0 = match &mut self.0 {
                State::Safe => return Poll::Ready(Ok(())),
                State::Written(ticket) => match ready!(Pin::new(ticket).poll(cx)) {
                    Ok(_) => State::Safe,
                    Err(error) => return Poll::Ready(Err(refusal(&error))),
                },
                State::Sought(sought) => match ready!(Pin::new(sought).poll(cx)) {
                    Ok(Ok(None)) => State::Safe,
                    Ok(Ok(Some(ticket))) => State::Written(ticket),
                    Ok(Err(error)) => return Poll::Ready(Err(refusal(&error))),
                    Err(_) => return Poll::Ready(Err(refusal(&AppendError::Closed))),
                },
            }
        }
    }
}

impl fmt::Debug for Storing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Storing").field(&matches!(self.0, State::Safe)).finish()
    }
}

impl NotTaken {
    pub(super) fn of(error: &AppendError) -> Self {
        match error {
            AppendError::Busy(_) => Self::Busy(refusal(error)),
            _ => Self::Refused(refusal(error)),
        }
    }
}

impl From<crate::buffer::Refusal> for NotTaken {
    fn from(refused: crate::buffer::Refusal) -> Self {
        let code = match refused {
            crate::buffer::Refusal::Retained => RefusalCode::Limit,
            _ => RefusalCode::Unavailable,
        };
        Self::Refused(Refusal::new(code, refused))
    }
}

impl From<NotTaken> for Refusal {
    fn from(not_taken: NotTaken) -> Self {
        match not_taken {
            NotTaken::Busy(refusal) | NotTaken::Refused(refusal) => refusal,
        }
    }
}

fn refusal(error: &AppendError) -> Refusal {
    Refusal::new(RefusalCode::Unavailable, error)
}
