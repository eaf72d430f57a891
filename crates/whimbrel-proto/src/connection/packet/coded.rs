//! Coding of a connection's packets: what is coded, and what is done with what was recovered.

use super::coding::{Plan, is_of_session};
use crate::coding::Recovered;
use crate::connection::paths::path_set::At;
use crate::connection::state::Connection;
use crate::wire::{Malformed, Reader, Writer, block};
use crate::{Cause, PeerMisbehaved, Time};

/// The most repair symbols for each source symbol of urgent messages, whatever the budget.
const MOST_URGENT: f64 = 1.0;

impl Connection {
    pub(in crate::connection) fn on_source(&mut self, reader: &mut Reader) -> Result<(), Malformed> {
        self.coding.on_source(reader, &self.budgets.memory)
    }

    pub(in crate::connection) fn on_repair(&mut self, reader: &mut Reader) -> Result<(), Malformed> {
        self.coding.on_repair(reader, &self.budgets.memory)
    }

    /// Returns how many bytes the next packet leaves for coding it.
    pub(in crate::connection) fn coding_reserve(&self, now: Time) -> usize {
        self.coding.reserve(now).unwrap_or(0)
    }

    /// Makes what was written of the session from `mark` on a source symbol, if it is of a message that could not be
    /// retransmitted in time. `reserved`: what was left for that.
    pub(in crate::connection) fn code(
        &mut self,
        now: Time,
        at: At,
        out: &mut Vec<u8>,
        mark: usize,
        reserved: usize,
    ) {
        let Some((expires, urgent)) = self.session.take_expiring_parts() else { return };
        let recovery = &self.paths[at].recovery;
        let half = recovery.rtt.smoothed() / 2;
        let left = expires.since(now);
        if !self.peer.reads_codes || self.config.repair_budget == 0 || left >= recovery.rtt.deadline() + half
        {
            return;
        }
        let budget = f64::from(self.config.repair_budget) / 100.0;
        let most = if urgent { budget.max(MOST_URGENT) } else { budget };
        let plan = Plan { left, half, loss: recovery.loss(), most };
        if self.coding.code(now, &plan, out, mark, reserved) {
            self.building.on_coded();
        }
    }

    /// Returns by when a message must expire for it to be vain to send its lost parts again: they would arrive later on
    /// any path, and repair symbols may have stood in for them. `None`: no messages are protected by any.
    pub(in crate::connection) fn resent_in_vain(&self, now: Time) -> Option<Time> {
        if !self.coding.is_armed(now) {
            return None;
        }
        let usable = self.paths.all().filter(|at| self.is_at_hand(*at));
        let fastest = usable.map(|at| self.paths[at].recovery.rtt.smoothed()).min();
        Some(now + fastest.unwrap_or_default() / 2)
    }

    /// Writes a repair symbol that is due. Returns false if there is none, or no room for it.
    pub(in crate::connection) fn write_repair(&mut self, now: Time, writer: &mut Writer<'_>) -> bool {
        self.coding.write_repair(now, writer)
    }

    /// Handles the source symbols that were recovered, as if their packets had come.
    pub(in crate::connection) fn take_recovered(&mut self, now: Time) -> Result<(), PeerMisbehaved> {
        for Recovered { symbol, .. } in self.coding.take_recovered() {
            let mut reader = Reader::new(symbol.into());
            while !reader.is_empty() {
                match reader.u8()? {
                    block::PADDING => drop(reader.rest()),
                    kind if is_of_session(kind) => {
                        self.session.handle_block(now, kind, &mut reader, false)?
                    }
                    _ => {
                        let what = "a block that is not the session's in a source symbol";
                        return Err(PeerMisbehaved::new(Cause::UnrecognizedBlock, what));
                    }
                }
            }
        }
        Ok(())
    }
}
