//! The tickets that a server gives its client.

use std::time::Duration;

use crate::crypto::PathMemory;
use crate::{Ticket, Time};

/// How long a path is measured before it is worth a second ticket.
pub(in crate::connection) const MEASURE: Duration = Duration::from_secs(1);

/// A ticket issued by [`Endpoint::handle_event`](crate::Endpoint::handle_event), to be passed to
/// [`Connection::handle_answer`](crate::Connection::handle_answer).
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedTicket {
    pub(crate) bytes: Vec<u8>,
    pub(crate) life: Duration,
}

impl std::fmt::Debug for IssuedTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IssuedTicket {{ good for {:?} }}", self.life)
    }
}

/// The tickets that a server has given its client so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Issued {
    /// None: the client has not proven itself.
    None,
    /// One, issued as soon as the client had proven itself. Another follows once the path is measured, from
    /// `measured_from` on.
    First { measured_from: Time },
    /// One that remembers what was measured of the path.
    Measured,
}

/// The ticket state of a client or a server.
#[derive(Debug)]
pub(in crate::connection) struct Ticketing {
    pub(in crate::connection) issued: Issued,
    /// Whether this is a server that issues tickets.
    issues: bool,
    /// The path measurements in the last requested ticket.
    told: Option<PathMemory>,
    /// Whether the endpoint was asked for a ticket and has not answered.
    pub(in crate::connection) asked: bool,
    /// The newest ticket that a client holds.
    pub(in crate::connection) held: Option<Box<Ticket>>,
}

impl Ticketing {
    pub(in crate::connection) fn new(issues: bool) -> Self {
        Self { issued: Issued::None, issues, told: None, asked: false, held: None }
    }

    /// Records that the client has proven itself. Returns whether its first ticket should be requested.
    pub(in crate::connection) fn on_confirmed(&mut self, now: Time) -> bool {
        if self.issues && self.issued == Issued::None {
            self.issued = Issued::First { measured_from: now + MEASURE };
            return true;
        }
        false
    }

    pub(in crate::connection) fn may_be_measured(&self, now: Time) -> bool {
        matches!(self.issued, Issued::First { measured_from } if measured_from <= now)
    }

    /// Records that the connection is closing. Returns whether `memory` is worth another ticket.
    pub(in crate::connection) fn on_closing(&mut self, memory: Option<PathMemory>) -> bool {
        let Some(memory) = memory.filter(|_| self.issued != Issued::None) else { return false };
        self.issued = Issued::Measured;
        self.told.is_none_or(|told| differs(told, memory))
    }

    pub(in crate::connection) fn on_asked(&mut self, memory: Option<PathMemory>) {
        self.asked = true;
        self.told = memory;
    }

    /// Returns whether a close must wait for a requested ticket: the client accepts nothing after FIN-ACK.
    pub(in crate::connection) fn is_awaited(&self) -> bool {
        self.asked
    }
}

/// Returns whether the rates differ by more than a third.
fn differs(a: PathMemory, b: PathMemory) -> bool {
    let (low, high) = (a.rate.min(b.rate), a.rate.max(b.rate));
    high - low > low / 3
}
