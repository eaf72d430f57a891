//! Buffers for the packet that is being built or opened, kept for the next one.

use super::sent_block::SentBlock;
use crate::recovery::Spare;
use crate::session::Carried;
use crate::wire::sack::Sack;

/// The state of the packet that is being built or opened.
#[derive(Default)]
pub(in crate::connection) struct Building {
    /// Whether the data being sent again is not known to be lost.
    doubling: bool,
    /// Whether the packet retransmits lost data.
    resending: bool,
    /// Whether the packet is a source symbol, so that repair symbols protect it.
    coded: bool,
    sack: Option<Box<Sack>>,
    carried: Vec<Carried>,
    blocks: Vec<SentBlock>,
}

impl Building {
    /// Begins a packet that carries no data.
    pub(in crate::connection) fn begin_bare(&mut self) {
        self.blocks.clear();
    }

    /// Begins a packet that may carry data.
    pub(in crate::connection) fn begin(&mut self) {
        self.blocks.clear();
        (self.resending, self.coded) = (false, false);
    }

    /// Notes whether the data that goes into the packet first is lost data.
    pub(in crate::connection) fn on_data(&mut self, lost: bool) {
        self.resending = lost;
    }

    pub(in crate::connection) fn is_resending(&self) -> bool {
        self.resending
    }

    /// Notes that the packet is a source symbol.
    pub(in crate::connection) fn on_coded(&mut self) {
        self.coded = true;
    }

    /// Notes that data is sent once more without a sign that it was lost.
    pub(in crate::connection) fn on_doubled(&mut self) {
        self.doubling = true;
    }

    /// Notes whether anything waits to be sent. If nothing does, the second copies have all gone out.
    pub(in crate::connection) fn on_waiting(&mut self, waits: bool) {
        self.doubling &= waits;
    }

    /// Returns what kind of repetition the packet is, if it is one. Where repair symbols stand in for a packet, a second
    /// copy is of no more use.
    pub(in crate::connection) fn spare(&self) -> Option<Spare> {
        match (self.doubling || self.coded, self.resending) {
            (true, _) => Some(Spare::Doubled),
            (false, true) => Some(Spare::Again),
            (false, false) => None,
        }
    }

    /// Notes a block that was written.
    pub(in crate::connection) fn add(&mut self, block: SentBlock) {
        self.blocks.push(block);
    }

    /// Returns the blocks written so far.
    pub(in crate::connection) fn blocks(&self) -> &[SentBlock] {
        &self.blocks
    }

    /// Returns whether anything of the session was written.
    pub(in crate::connection) fn has_data(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, SentBlock::Session(_)))
    }

    /// Has `write` write something of the session and note what it was.
    pub(in crate::connection) fn carry<T>(&mut self, write: impl FnOnce(&mut Vec<Carried>) -> T) -> T {
        let result = self.lay_out(write);
        self.take_along();
        result
    }

    /// Has `write` write something of the session, like [`Building::carry`], into a packet that is not begun yet.
    pub(in crate::connection) fn lay_out<T>(&mut self, write: impl FnOnce(&mut Vec<Carried>) -> T) -> T {
        self.carried.clear();
        write(&mut self.carried)
    }

    /// Takes what was laid out along in this packet.
    pub(in crate::connection) fn take_along(&mut self) {
        self.blocks.extend(self.carried.iter().map(|carried| SentBlock::Session(*carried)));
    }

    /// Returns what was written of the session last.
    pub(in crate::connection) fn carried(&self) -> &[Carried] {
        &self.carried
    }

    /// Lends the memory for a SACK that is read.
    pub(in crate::connection) fn lend_sack(&mut self) -> Box<Sack> {
        self.sack.take().unwrap_or_default()
    }

    /// Takes the memory back.
    pub(in crate::connection) fn return_sack(&mut self, sack: Box<Sack>) {
        self.sack = Some(sack);
    }

    /// Frees the memory.
    pub(in crate::connection) fn trim(&mut self) {
        self.blocks = Vec::new();
        self.carried = Vec::new();
        self.sack = None;
    }
}
