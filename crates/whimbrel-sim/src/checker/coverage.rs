//! The coverage of a run.

use std::collections::BTreeMap;

use whimbrel_proto::session::Outcome;

use super::special::Special;

/// Counts of what happened in a run, which show whether runs go where faults may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Messages sent.
    pub sent: u64,
    /// Messages read.
    pub delivered: u64,
    /// Outcomes by their kind.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Byte streams opened.
    pub streams: u64,
    /// Packets sent by both ends.
    pub packets: u64,
    /// Packets among these that were lost.
    pub lost: u64,
    /// Key updates.
    pub key_updates: u64,
    /// Address changes.
    pub moves: u64,
    /// Address changes of the server.
    pub server_moves: u64,
    /// Paths opened beside the first.
    pub paths: u64,
    /// Times that data moved to another primary path.
    pub changeovers: u64,
    /// Runs that sent on several paths, by what was drawn for them.
    pub drawn: BTreeMap<String, u64>,
    /// Special events, by name.
    pub specials: BTreeMap<Special, u64>,
    /// Times that a session was resumed from bytes.
    pub resumed: u64,
    /// Operations.
    pub operations: u64,
    /// The value of [`World::digest`](crate::world::World::digest) at the end; over several runs, the sum.
    pub digest: u64,
}

impl Coverage {
    /// Counts a special event.
    pub(super) fn special(&mut self, special: Special) {
        *self.specials.entry(special).or_default() += 1;
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        for (outcome, count) in &other.outcomes {
            *self.outcomes.entry(*outcome).or_default() += count;
        }
        self.streams += other.streams;
        self.packets += other.packets;
        self.lost += other.lost;
        self.key_updates += other.key_updates;
        self.moves += other.moves;
        self.server_moves += other.server_moves;
        self.paths += other.paths;
        self.changeovers += other.changeovers;
        for (drawn, count) in &other.drawn {
            *self.drawn.entry(drawn.clone()).or_default() += count;
        }
        for (special, count) in &other.specials {
            *self.specials.entry(*special).or_default() += count;
        }
        self.resumed += other.resumed;
        self.operations += other.operations;
        self.digest = self.digest.wrapping_add(other.digest);
    }
}
