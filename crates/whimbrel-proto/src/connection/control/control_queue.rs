//! The queue of the connection's own blocks that wait to be sent or retransmitted.

use super::notices::ControlNotices;
use crate::PathId;
use crate::wire::close::{Reason, write_fin};
use crate::wire::{Writer, block, varint_len};

/// A control block, as remembered for the packet that carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlBlock {
    Fin,
    FinAck,
    KeepAlive,
    /// A notice, by its number.
    Notice(u32),
    /// A ticket, by its number. The fate of an older one says nothing about the newest.
    Ticket(u32),
    /// SET_PRIMARY, by its sequence number. Only the newest counts.
    SetPrimary(u64),
}

#[derive(Default)]
pub(in crate::connection) struct ControlQueue {
    fin: Option<Box<Reason>>,
    fin_due: bool,
    fin_ack_due: bool,
    ticket: Option<Box<(u32, Vec<u8>)>>,
    ticket_due: bool,
    tickets: u32,
    primary: Option<PathId>,
    primary_due: bool,
    /// The sequence number of the newest SET_PRIMARY.
    primaries: u64,
    notices: ControlNotices,
}

impl ControlQueue {
    pub(in crate::connection) fn fin(&mut self, reason: Reason) {
        self.fin = Some(Box::new(reason));
        self.fin_due = true;
    }

    pub(in crate::connection) fn fin_ack(&mut self) {
        self.fin_ack_due = true;
    }

    pub(in crate::connection) fn ticket(&mut self, lifetime_s: u32, ticket: Vec<u8>) {
        self.ticket = Some(Box::new((lifetime_s, ticket)));
        self.ticket_due = true;
        self.tickets = self.tickets.wrapping_add(1);
    }

    /// Queues SET_PRIMARY: the peer should send on `path` first.
    pub(in crate::connection) fn set_primary(&mut self, path: PathId, sequence: u64) {
        self.primary = Some(path);
        self.primary_due = true;
        self.primaries = sequence;
    }

    /// Queues a whole block that must arrive. Returns its number.
    pub(in crate::connection) fn notice(&mut self, block: Vec<u8>) -> u32 {
        self.notices.push(block)
    }

    /// Returns how many notices are not acknowledged yet.
    pub(in crate::connection) fn notices(&self) -> usize {
        self.notices.len()
    }

    /// Returns whether the notice is not acknowledged yet.
    pub(in crate::connection) fn holds_notice(&self, number: u32) -> bool {
        self.notices.holds(number)
    }

    /// Stops sending the notice. It is kept until it turns out that the peer has it.
    pub(in crate::connection) fn withdraw(&mut self, number: u32) {
        self.notices.withdraw(number);
    }

    /// Queues a withdrawn notice again.
    pub(in crate::connection) fn renew(&mut self, number: u32) {
        self.notices.renew(number);
    }

    /// Returns the bytes of a notice that is not acknowledged yet, for an additional copy.
    pub(in crate::connection) fn held_notice(&self, number: u32) -> Option<&[u8]> {
        self.notices.held(number)
    }

    pub(in crate::connection) fn is_empty(&self) -> bool {
        !(self.fin_due || self.fin_ack_due || self.ticket_due || self.primary_due || self.notices.is_due())
    }

    /// Writes the blocks that are due and fit, and reports each to `carried`.
    pub(in crate::connection) fn fill(
        &mut self,
        out: &mut Writer<'_>,
        mut carried: impl FnMut(ControlBlock),
    ) {
        self.notices.fill(out, |number| carried(ControlBlock::Notice(number)));
        if self.fin_ack_due && out.remaining() > 0 {
            out.u8(block::FIN_ACK);
            self.fin_ack_due = false;
            carried(ControlBlock::FinAck);
        }
        if self.fin_due
            && let Some(reason) = &self.fin
            && write_fin(out, reason)
        {
            self.fin_due = false;
            carried(ControlBlock::Fin);
        }
        if self.ticket_due
            && let Some((lifetime, ticket)) = self.ticket.as_deref()
            && out.remaining() > 1 + 8 + varint_len(ticket.len() as u64) + ticket.len()
        {
            out.u8(block::TICKET);
            out.varint(u64::from(*lifetime));
            out.varint(ticket.len() as u64);
            out.bytes(ticket);
            self.ticket_due = false;
            carried(ControlBlock::Ticket(self.tickets));
        }
        if self.primary_due
            && let Some(path) = self.primary
            && out.remaining() > 2 * 8
        {
            out.u8(block::SET_PRIMARY);
            out.varint(self.primaries);
            out.varint(u64::from(path.0));
            self.primary_due = false;
            carried(ControlBlock::SetPrimary(self.primaries));
        }
    }

    pub(in crate::connection) fn on_acked(&mut self, control: ControlBlock) {
        match control {
            ControlBlock::Ticket(number) if number == self.tickets => {
                self.ticket = None;
                self.ticket_due = false;
            }
            ControlBlock::Notice(number) => self.notices.on_acked(number),
            ControlBlock::SetPrimary(number) if number == self.primaries => {
                self.primary = None;
                self.primary_due = false;
            }
            _ => {}
        }
    }

    pub(in crate::connection) fn on_lost(&mut self, control: ControlBlock) {
        match control {
            ControlBlock::Fin => self.fin_due = true,
            ControlBlock::FinAck => self.fin_ack_due = true,
            // It has served its purpose by being sent.
            ControlBlock::KeepAlive => {}
            ControlBlock::Ticket(number) if number == self.tickets => self.ticket_due = self.ticket.is_some(),
            ControlBlock::Notice(number) => self.notices.on_lost(number),
            ControlBlock::SetPrimary(number) if number == self.primaries => {
                self.primary_due = self.primary.is_some()
            }
            ControlBlock::Ticket(_) | ControlBlock::SetPrimary(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_sent_again() {
        let mut queue = ControlQueue::default();
        queue.fin(Reason::new(3, "done"));
        queue.ticket(60, vec![7; 40]);
        let mut carried = Vec::new();
        queue.fill(&mut Writer::new(&mut Vec::new(), 1200), |control| carried.push(control));
        assert_eq!(carried, [ControlBlock::Fin, ControlBlock::Ticket(1)]);
        assert!(queue.is_empty());
        queue.on_lost(ControlBlock::Fin);
        queue.on_acked(ControlBlock::Ticket(1));
        queue.on_lost(ControlBlock::Ticket(1));
        carried.clear();
        queue.fill(&mut Writer::new(&mut Vec::new(), 1200), |control| carried.push(control));
        assert_eq!(carried, [ControlBlock::Fin], "an acknowledged ticket is not sent again");
        queue.ticket(60, vec![8; 40]);
        queue.on_acked(ControlBlock::Ticket(1));
        assert!(!queue.is_empty(), "the acknowledgement is of the one before");
    }
}
