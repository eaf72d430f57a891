//! The answers to a client's messages, which wait until the messages are stored.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use whimbrel_pubsub::frame::{Refusal, RefusalCode};

use super::codec::{Fault, Qos, Reason};
use crate::hub::Storing;
use crate::share::Charge;

/// A message of a client, by which it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) qos: Qos,
    /// The packet identifier. 0 at QoS 0.
    pub(super) id: u16,
}

/// Answers in the order in which the messages came. Those at QoS 0 are only waited for.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: VecDeque<(Asked, Outcome)>,
}

#[derive(Debug)]
enum Outcome {
    Storing {
        storing: Storing,
        /// Its part of its client's share.
        _charge: Option<Charge>,
    },
    Known(Result<(), Fault>),
}

impl Answers {
    /// A message was taken, and may still have to be stored.
    pub(super) fn taken(&mut self, asked: Asked, storing: Storing, charge: Option<Charge>) {
        self.waiting.push_back((asked, Outcome::Storing { storing, _charge: charge }));
    }

    pub(super) fn refused(&mut self, asked: Asked, fault: Fault) {
        self.waiting.push_back((asked, Outcome::Known(Err(fault))));
    }

    /// Waits until the first is known; for good if there is none. Dropping it loses nothing.
    pub(super) async fn known(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Takes the first if it is known.
    pub(super) fn take(&mut self) -> Option<(Asked, Result<(), Fault>)> {
        if self.poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            return None;
        }
        match self.waiting.pop_front()? {
            (asked, Outcome::Known(known)) => Some((asked, known)),
            (_, Outcome::Storing { .. }) => None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.waiting.front_mut() {
            Some((_, outcome)) => outcome.poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Outcome {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Storing { storing, .. } = self {
            let Poll::Ready(stored) = Pin::new(storing).poll(cx) else { return Poll::Pending };
            *self = Self::Known(stored.map_err(fault_of));
        }
        Poll::Ready(())
    }
}

/// A refusal of the hub, in the standard's codes.
pub(super) fn fault_of(refusal: Refusal) -> Fault {
    let reason = match refusal.code {
        RefusalCode::Limit | RefusalCode::Unavailable => Reason::QUOTA,
        RefusalCode::NotPermitted => Reason::NOT_AUTHORIZED,
        _ => Reason::IMPLEMENTATION,
    };
    Fault::new(reason, refusal.reason)
}

/// The disk takes nothing.
pub(super) fn full(error: impl std::fmt::Display) -> Fault {
    fault_of(Refusal::new(RefusalCode::Unavailable, error))
}
