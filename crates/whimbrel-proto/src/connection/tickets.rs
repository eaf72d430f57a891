//! Tickets: a server's connection asks its endpoint for them, a client's keeps the newest.

use std::time::Duration;

use bytes::Bytes;

use super::{Connection, EndpointEvent, Event, Main};
use crate::crypto::PathMemory;
use crate::tickets::LONGEST_LIFE;
use crate::wire::Reader;
use crate::{PeerMisbehaved, Side, Ticket, Time};

/// A path is measured for so long before it is worth a second ticket.
const MEASURE: Duration = Duration::from_secs(1);

/// A ticket from [`crate::Endpoint::handle_event`], for [`Connection::handle_answer`].
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
enum Issued {
    /// The client has not proven itself.
    None,
    /// One, as soon as it had; another follows when the path is measured, from this time on.
    First { measured_from: Time },
    /// One that remembers the path.
    Measured,
}

/// What either side has to do with tickets.
#[derive(Debug)]
pub(super) struct Ticketing {
    issued: Issued,
    /// A server that issues.
    issues: bool,
    /// What the last one that was asked for remembers.
    told: Option<PathMemory>,
    /// The endpoint was asked and has not answered.
    asked: bool,
    /// A client's newest.
    held: Option<Box<Ticket>>,
}

impl Ticketing {
    pub(super) fn new(issues: bool) -> Self {
        Self { issued: Issued::None, issues, told: None, asked: false, held: None }
    }

    /// The client has proven itself. True: ask for its first ticket.
    fn on_confirmed(&mut self, now: Time) -> bool {
        if self.issues && self.issued == Issued::None {
            self.issued = Issued::First { measured_from: now + MEASURE };
            return true;
        }
        false
    }

    fn may_be_measured(&self, now: Time) -> bool {
        matches!(self.issued, Issued::First { measured_from } if measured_from <= now)
    }

    /// The end begins. True: what is known by now is worth another ticket.
    fn on_closing(&mut self, memory: Option<PathMemory>) -> bool {
        let Some(memory) = memory.filter(|_| self.issued != Issued::None) else { return false };
        self.issued = Issued::Measured;
        self.told.is_none_or(|told| differs(told, memory))
    }

    fn on_asked(&mut self, memory: Option<PathMemory>) {
        self.asked = true;
        self.told = memory;
    }

    /// A close waits for the answer: behind FIN-ACK nobody would take it.
    pub(super) fn is_awaited(&self) -> bool {
        self.asked
    }
}

/// By more than a third.
fn differs(a: PathMemory, b: PathMemory) -> bool {
    let (low, high) = (a.rate.min(b.rate), a.rate.max(b.rate));
    high - low > low / 3
}

impl Connection {
    /// The newest ticket the server gave, with what is known of the path by now. For a client; a listener has none.
    pub fn ticket(&self) -> Option<Ticket> {
        let ticket = self.tickets.held.as_deref()?;
        Some(Ticket { memory: self.paths[Main].recovery.remember().or(ticket.memory), ..ticket.clone() })
    }

    /// Takes the endpoint's answer to [`EndpointEvent::TicketWanted`]; it goes out with the next packet.
    pub(super) fn handle_ticket(&mut self, ticket: IssuedTicket) {
        self.tickets.asked = false;
        let life = u32::try_from(ticket.life.as_secs()).unwrap_or(u32::MAX);
        self.control.ticket(life, ticket.bytes);
    }

    pub(super) fn issue_first_ticket(&mut self, now: Time) {
        if self.tickets.on_confirmed(now) {
            self.ask_for_ticket(self.paths[Main].recovery.remember());
        }
    }

    /// Another one once the path's rate is known.
    pub(super) fn issue_measured_ticket(&mut self, now: Time) {
        if self.tickets.may_be_measured(now)
            && let Some(memory) = self.paths[Main].recovery.remember()
        {
            self.tickets.issued = Issued::Measured;
            self.ask_for_ticket(Some(memory));
        }
    }

    pub(super) fn issue_last_ticket(&mut self) {
        let memory = self.paths[Main].recovery.remember();
        if self.tickets.on_closing(memory) {
            self.ask_for_ticket(memory);
        }
    }

    fn ask_for_ticket(&mut self, memory: Option<PathMemory>) {
        let Some(client_key) = self.peer_key else { return };
        self.tickets.on_asked(memory);
        let memory = memory.unwrap_or_default();
        self.endpoint_events.push_back(EndpointEvent::TicketWanted { client_key, memory });
    }

    /// TICKET came.
    pub(super) fn on_ticket(&mut self, now: Time, reader: &mut Reader) -> Result<(), PeerMisbehaved> {
        let (life, bytes) = read_ticket(reader)?;
        let Some(server_key) = self.peer_key.filter(|_| self.side == Side::Client) else { return Ok(()) };
        let ticket =
            Ticket { server_key, bytes, until: now + life, memory: self.paths[Main].recovery.remember() };
        self.tickets.held = Some(Box::new(ticket.clone()));
        self.events.push_back(Event::Ticket(ticket));
        Ok(())
    }

    /// Over: what was learnt of the path since the ticket came goes with it.
    pub(super) fn refresh_ticket(&mut self) {
        if let Some(ticket) = self.ticket()
            && self.tickets.held.as_ref().is_some_and(|held| held.memory != ticket.memory)
        {
            self.events.push_back(Event::Ticket(ticket));
        }
    }
}

/// What TICKET says: for how long, and the ticket.
pub(super) fn read_ticket(reader: &mut Reader) -> Result<(Duration, Bytes), PeerMisbehaved> {
    let life = Duration::from_secs(reader.varint()?).min(LONGEST_LIFE);
    let length = reader.varint()?;
    // Out of the packet's buffer, which is many times as large.
    Ok((life, Bytes::copy_from_slice(&reader.bytes(length)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_first_one_when_measured_and_one_at_the_end_if_much_has_changed() {
        let memory = |rate| Some(PathMemory { rate, rtt: Duration::from_millis(50) });
        let mut tickets = Ticketing::new(true);
        assert!(!tickets.on_closing(memory(9)), "to nobody who is not proven");
        assert!(tickets.on_confirmed(Time::ZERO));
        assert!(!tickets.on_confirmed(Time::ZERO));
        assert!(!tickets.may_be_measured(Time::ZERO));
        assert!(tickets.may_be_measured(Time::ZERO + MEASURE));
        tickets.on_asked(memory(1000));
        assert!(tickets.is_awaited());
        assert!(!tickets.on_closing(memory(1300)));
        assert!(!tickets.on_closing(None));
        assert!(tickets.on_closing(memory(600)));
        assert!(!Ticketing::new(false).on_confirmed(Time::ZERO));
    }
}
