//! How many streams each end has opened, and how many it may.

use super::config::DEFAULT_STREAMS;
use super::receive::scattered::Scattered;
use crate::Side;

/// Streams of either end, by number: those below were opened once.
#[derive(Debug)]
pub(super) struct StreamCounts {
    opened: u64,
    peer_opened: u64,
    /// Streams of the peer's that have ended.
    peer_ended: u64,
    /// How many the peer may open, ever.
    granted: u64,
    /// One was refused for want of the peer's grant, or of its parameters.
    wanted: bool,
    /// Streams of the peer's that it opened by naming a later one, and that nothing else has been heard of: they are not in the table.
    unheard: Scattered,
}

impl StreamCounts {
    /// Stream 0 is there already.
    pub(super) fn new(side: Side, max_streams: u64) -> Self {
        Self {
            opened: u64::from(side == Side::Client),
            peer_opened: u64::from(side == Side::Server),
            peer_ended: 0,
            granted: max_streams.max(DEFAULT_STREAMS),
            wanted: false,
            unheard: Scattered::default(),
        }
    }

    /// As [`Self::to_saved`] gave them.
    pub(super) fn from_saved(
        [opened, peer_opened, peer_ended, granted]: [u64; 4],
        unheard: Scattered,
    ) -> Self {
        Self { opened, peer_opened, peer_ended, granted, wanted: false, unheard }
    }

    pub(super) fn unheard(&self) -> &Scattered {
        &self.unheard
    }

    pub(super) fn to_saved(&self) -> [u64; 4] {
        [self.opened, self.peer_opened, self.peer_ended, self.granted]
    }

    /// How many streams `opener` has opened, where this end is `side`.
    pub(super) fn opened_by(&self, opener: Side, side: Side) -> u64 {
        if opener == side { self.opened } else { self.peer_opened }
    }

    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// The number of a new stream of this end. None: the peer allows no more now.
    pub(super) fn open(&mut self, limit: u64) -> Option<u64> {
        if self.opened >= limit {
            self.wanted = true;
            return None;
        }
        self.opened += 1;
        Some(self.opened - 1)
    }

    /// The peer names a stream of its own that is not in the table, and opens all before it by that. Says whether it is new: else it is
    /// over.
    pub(super) fn hear_of(&mut self, named: u64) -> bool {
        if named < self.peer_opened {
            let unheard = self.unheard.contains(named);
            self.unheard.remove(named, named + 1);
            return unheard;
        }
        if named > self.peer_opened {
            self.unheard.insert(self.peer_opened, named);
        }
        self.peer_opened = named + 1;
        true
    }

    /// The memory it takes beside itself, bytes.
    pub(super) fn memory(&self) -> u64 {
        self.unheard.memory()
    }

    /// One was refused: tell once it can be opened.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// A stream of the peer's has ended: it may open another.
    pub(super) fn on_peers_ended(&mut self) {
        self.peer_ended += 1;
        self.granted += 1;
    }

    /// Whether a stream that was refused can be opened now; says so once.
    pub(super) fn take_wanted(&mut self, limit: u64) -> bool {
        let now = self.wanted && self.opened < limit;
        self.wanted &= !now;
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_answered_once_there_is_room() {
        let mut counts = StreamCounts::new(Side::Client, 0);
        assert_eq!(counts.open(2), Some(1), "stream 0 is the client's");
        assert_eq!(counts.open(2), None);
        assert!(!counts.take_wanted(2), "as before");
        assert!(counts.take_wanted(3) && !counts.take_wanted(3));
    }

    #[test]
    fn the_peer_opens_all_up_to_the_one_it_names_and_gets_another_for_each_that_ends() {
        let mut counts = StreamCounts::new(Side::Client, 200);
        assert!(counts.hear_of(2) && counts.hear_of(0) && counts.hear_of(1));
        assert!((0..3).all(|number| !counts.hear_of(number)), "each is new once");
        assert_eq!(counts.opened_by(Side::Server, Side::Client), 3);
        counts.on_peers_ended();
        assert_eq!(counts.granted(), 201);
        assert_eq!(
            StreamCounts::from_saved(counts.to_saved(), Scattered::default()).to_saved(),
            [1, 3, 1, 201]
        );
    }
}
