//! The wait before a message is acknowledged.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use whimbrel_pubsub::frame::{Refusal, RefusalCode};

use super::copying::Copied;
use crate::store::{AppendError, Ticket};

/// Waits until a message is as safe as its channel promises: on this broker's disk, and on those of others. Dropping it takes nothing back.
#[must_use = "a message of a durable channel is acknowledged only when this says so"]
#[derive(Debug)]
pub struct Storing {
    /// The append here, until it is done.
    ticket: Option<Ticket>,
    /// The wait for other brokers, until it is over.
    copied: Option<Copied>,
}

/// Why a message is not taken.
#[derive(Clone, Debug)]
pub enum NotTaken {
    /// Too much waits to be written, or too few brokers are within reach. It may be tried again.
    Busy(Refusal),
    /// It is refused.
    Refused(Refusal),
}

impl Storing {
    pub(super) fn of(ticket: Option<Ticket>, copied: Option<Copied>) -> Self {
        Self { ticket, copied }
    }

    /// Nothing to wait for.
    pub(crate) fn safe() -> Self {
        Self { ticket: None, copied: None }
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn is_safe(&self) -> bool {
        self.ticket.is_none() && self.copied.is_none()
    }
}

impl Future for Storing {
    type Output = Result<(), Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(ticket) = &mut self.ticket {
            let stored = ready!(Pin::new(ticket).poll(cx));
            self.ticket = None;
            if let Err(error) = stored {
                self.copied = None;
                return Poll::Ready(Err(refusal(&error)));
            }
        }
        if let Some(copied) = &mut self.copied {
            let copied = ready!(Pin::new(copied).poll(cx));
            self.copied = None;
            return Poll::Ready(copied);
        }
        Poll::Ready(Ok(()))
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
    let code = match error {
        AppendError::TooLong(_) => RefusalCode::Limit,
        _ => RefusalCode::Unavailable,
    };
    Refusal::new(code, error)
}
