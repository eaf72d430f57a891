//! Tickets: a server's connection requests them from its endpoint, and a client's keeps the newest.

use std::time::Duration;

use bytes::Bytes;

use super::ticketing::{Issued, IssuedTicket};
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::paths::path_set::Main;
use crate::connection::state::Connection;
use crate::crypto::PathMemory;
use crate::expected::Expected;
use crate::tickets::LONGEST_LIFE;
use crate::wire::Reader;
use crate::{PeerMisbehaved, Side, Ticket, Time};

impl Connection {
    /// Returns the newest ticket from the server, with what is known of the path by now. A server has none.
    pub fn ticket(&self) -> Option<Ticket> {
        let ticket = self.tickets.held.as_deref()?;
        Some(Ticket { memory: self.paths[Main].recovery.remember().or(ticket.memory), ..ticket.clone() })
    }

    /// Handles the endpoint's answer to [`EndpointEvent::TicketWanted`]. The ticket goes out with the next packet.
    pub(in crate::connection) fn handle_ticket(&mut self, ticket: IssuedTicket) {
        self.tickets.asked = false;
        let life = u32::try_from(ticket.life.as_secs()).unwrap_or(u32::MAX);
        self.control.ticket(life, ticket.bytes);
    }

    pub(in crate::connection) fn issue_first_ticket(&mut self, now: Time) {
        if self.tickets.on_confirmed(now) {
            self.ask_for_ticket(self.paths[Main].recovery.remember());
        }
    }

    /// Requests another ticket once the path's rate is known.
    pub(in crate::connection) fn issue_measured_ticket(&mut self, now: Time) {
        if self.tickets.may_be_measured(now)
            && let Some(memory) = self.paths[Main].recovery.remember()
        {
            self.tickets.issued = Issued::Measured;
            self.ask_for_ticket(Some(memory));
        }
    }

    pub(in crate::connection) fn issue_last_ticket(&mut self) {
        let memory = self.paths[Main].recovery.remember();
        if self.tickets.on_closing(memory) {
            self.ask_for_ticket(memory);
        }
    }

    fn ask_for_ticket(&mut self, memory: Option<PathMemory>) {
        let Some(client_key) = self.peer.key.expected("the key of the client") else { return };
        self.tickets.on_asked(memory);
        let memory = memory.unwrap_or_default();
        self.endpoint_events.push_back(EndpointEvent::TicketWanted { client_key, memory });
    }

    /// Handles TICKET.
    pub(in crate::connection) fn on_ticket(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let (life, bytes) = read_ticket(reader)?;
        let Some(server_key) = self.peer.key.filter(|_| self.side == Side::Client) else { return Ok(()) };
        let ticket =
            Ticket { server_key, bytes, until: now + life, memory: self.paths[Main].recovery.remember() };
        self.tickets.held = Some(Box::new(ticket.clone()));
        self.events.push_back(Event::Ticket(ticket));
        Ok(())
    }

    /// Reports the ticket again at the end if more of the path was learnt since it came.
    pub(in crate::connection) fn refresh_ticket(&mut self) {
        if let Some(ticket) = self.ticket()
            && self.tickets.held.as_ref().is_some_and(|held| held.memory != ticket.memory)
        {
            self.events.push_back(Event::Ticket(ticket));
        }
    }
}

/// Reads TICKET: the ticket's lifetime and its bytes.
pub(in crate::connection) fn read_ticket(reader: &mut Reader) -> Result<(Duration, Bytes), PeerMisbehaved> {
    let life = Duration::from_secs(reader.varint()?).min(LONGEST_LIFE);
    let length = reader.varint()?;
    // Copied out of the packet's buffer, which is many times as large.
    Ok((life, Bytes::copy_from_slice(&reader.bytes(length)?)))
}

#[cfg(test)]
mod tests {
    use super::super::ticketing::{MEASURE, Ticketing};
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
