//! Reporting what became of a packet to everything that it carried.

use super::notes::Notes;
use super::sent_block::SentBlock;
use crate::Time;
use crate::connection::control::control_queue::{ControlBlock, ControlQueue};
use crate::connection::event::Event;
use crate::connection::lifecycle::close::Ending;
use crate::connection::paths::path_set::At;
use crate::connection::state::Connection;
use crate::mutants::{Mutant, planted};
use crate::recovery::Fate;
use crate::session::{Carried, Session};
impl Connection {
    /// Reports what became of a packet to one of the items that it carried.
    pub(in crate::connection) fn settle(
        now: Time,
        fate: Fate,
        item: &SentBlock,
        session: &mut Session,
        control: &mut ControlQueue,
        notes: &mut Notes,
    ) {
        match (item, fate) {
            (SentBlock::Session(Carried::Run { first, .. }), Fate::Acked)
                if planted(Mutant::AcknowledgementDropped) && first % 8 == 5 => {}
            (SentBlock::Session(carried), Fate::Acked) => session.on_acked(now, carried),
            (SentBlock::Session(carried), Fate::Lost) => {
                notes.lost_parts += u32::from(matches!(carried, Carried::Fragment { .. }));
                session.on_lost(now, carried);
            }
            (SentBlock::ControlBlock(block), Fate::Acked) => {
                control.on_acked(*block);
                notes.fin_ack_acked |= *block == ControlBlock::FinAck;
            }
            (SentBlock::ControlBlock(block), Fate::Lost) => control.on_lost(*block),
            (SentBlock::Sack(largest), Fate::Acked) => {
                notes.sack_acked = notes.sack_acked.max(Some(*largest))
            }
            (SentBlock::SackOf(path, largest), Fate::Acked) => {
                notes.other_sack_acked = Some((*path, *largest))
            }
            (SentBlock::Sack(_) | SentBlock::SackOf(..), Fate::Lost) => {}
            (SentBlock::MtuProbe(size), fate) => notes.mtu_probe = Some((*size, fate)),
            (SentBlock::Answer, _) => {}
        }
    }

    /// Applies to the path itself what the fates of its packets mean.
    pub(in crate::connection) fn take_notes(&mut self, now: Time, at: At, notes: Notes) {
        self.coding.on_lost(now, notes.lost_parts, notes.spurious);
        if let Some(largest) = notes.sack_acked {
            self.paths[at].received.on_sack_acked(largest);
        }
        if let Some((path, largest)) = notes.other_sack_acked
            && let Some(other) = self.paths.by_id(path)
        {
            self.paths[other].received.on_sack_acked(largest);
        }
        let grown = match notes.mtu_probe {
            Some((size, Fate::Acked)) => self.paths[at].mtu.on_probe_acked(now, size).is_some(),
            Some((size, Fate::Lost)) => {
                self.paths[at].mtu.on_probe_lost(now, size);
                false
            }
            None => false,
        };
        // Losses of full-size packets may mean a black hole.
        let full = self.paths[at].recovery.take_full();
        if full.acked > 0 {
            self.paths[at].mtu.on_full_acked();
        } else if notes.acked > 0 {
            self.paths[at].mtu.on_small_acked();
        }
        let shrunk = (0..full.lost).any(|_| self.paths[at].mtu.on_full_lost());
        if grown || shrunk {
            let size = u64::from(self.paths[at].mtu.current()) + self.paths[at].headers();
            self.paths[at].recovery.set_packet_size(size);
            self.events.push_back(Event::MaxUnfragmented(self.max_unfragmented()));
        }
        if notes.fin_ack_acked && matches!(self.ending, Ending::FinAckSent { .. }) {
            self.finish_peer_closed(now);
        }
    }
}
