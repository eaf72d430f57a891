//! The ticket a client is given.

use std::time::Duration;

use crate::crypto::PathMemory;
use crate::{Ticket, Time};

/// A path is measured for so long before it is worth a second ticket.
pub(in crate::connection) const MEASURE: Duration = Duration::from_secs(1);

/// A ticket from [`crate::Endpoint::handle_event`], for [`Connection::handle_answer`](crate::Connection::handle_answer).
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

/// The server's side: how many tickets its client has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Issued {
    /// The client has not proven itself.
    None,
    /// One, as soon as it had; another follows when the path is measured, from this time on.
    First { measured_from: Time },
    /// One that remembers the path.
    Measured,
}

/// What either side has to do with tickets.
#[derive(Debug)]
pub(in crate::connection) struct Ticketing {
    pub(in crate::connection) issued: Issued,
    /// A server that issues.
    issues: bool,
    /// What the last one that was asked for remembers.
    told: Option<PathMemory>,
    /// The endpoint was asked and has not answered.
    pub(in crate::connection) asked: bool,
    /// A client's newest.
    pub(in crate::connection) held: Option<Box<Ticket>>,
}

impl Ticketing {
    pub(in crate::connection) fn new(issues: bool) -> Self {
        Self { issued: Issued::None, issues, told: None, asked: false, held: None }
    }

    /// The client has proven itself. True: ask for its first ticket.
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

    /// The end begins. True: what is known by now is worth another ticket.
    pub(in crate::connection) fn on_closing(&mut self, memory: Option<PathMemory>) -> bool {
        let Some(memory) = memory.filter(|_| self.issued != Issued::None) else { return false };
        self.issued = Issued::Measured;
        self.told.is_none_or(|told| differs(told, memory))
    }

    pub(in crate::connection) fn on_asked(&mut self, memory: Option<PathMemory>) {
        self.asked = true;
        self.told = memory;
    }

    /// A close waits for the answer: behind FIN-ACK nobody would take it.
    pub(in crate::connection) fn is_awaited(&self) -> bool {
        self.asked
    }
}

/// By more than a third.
fn differs(a: PathMemory, b: PathMemory) -> bool {
    let (low, high) = (a.rate.min(b.rate), a.rate.max(b.rate));
    high - low > low / 3
}
