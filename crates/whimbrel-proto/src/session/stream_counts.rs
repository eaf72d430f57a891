//! The number of streams that each end has opened and may open.

use super::config::DEFAULT_STREAMS;
use super::receive::scattered::Scattered;
use crate::Side;

/// Counts of the streams opened by each end. Streams are numbered from 0, so all below a count have been opened.
#[derive(Debug)]
pub(super) struct StreamCounts {
    opened: u64,
    peer_opened: u64,
    /// Streams of the peer's that have ended.
    peer_ended: u64,
    /// How many streams the peer may open in all.
    granted: u64,
    /// Whether opening a stream was refused because the peer had not granted it, or had not announced its limits.
    wanted: bool,
    /// Streams the peer opened only by naming a later one. They are not in the table of streams.
    unheard: Scattered,
}

impl StreamCounts {
    /// Creates the counts. Stream 0 counts as opened by the client.
    pub(super) fn new(side: Side) -> Self {
        Self {
            opened: u64::from(side == Side::Client),
            peer_opened: u64::from(side == Side::Server),
            peer_ended: 0,
            granted: DEFAULT_STREAMS,
            wanted: false,
            unheard: Scattered::default(),
        }
    }

    /// Restores the counts from the values that [`Self::to_saved`] returned.
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

    /// Returns how many streams `opener` has opened. `side` is this end.
    pub(super) fn opened_by(&self, opener: Side, side: Side) -> u64 {
        if opener == side { self.opened } else { self.peer_opened }
    }

    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns the number of a new stream of this end. None: the peer allows no more now.
    pub(super) fn open(&mut self, limit: u64) -> Option<u64> {
        if self.opened >= limit {
            self.wanted = true;
            return None;
        }
        self.opened += 1;
        Some(self.opened - 1)
    }

    /// Handles a stream of the peer's that is not in the table. Naming it opens all streams before it. Returns whether
    /// it is new; if not, it is over.
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

    /// Returns the memory held besides the struct itself, bytes.
    pub(super) fn memory(&self) -> u64 {
        self.unheard.memory()
    }

    /// Returns whether opening a stream was refused and cannot be done yet.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Remembers that opening a stream was refused, so that it is reported once one can be opened.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Counts an ended stream of the peer's, which may open another in its place.
    pub(super) fn on_peers_ended(&mut self) {
        self.peer_ended += 1;
        self.granted += 1;
    }

    /// Returns how many streams the peer may have open at a time.
    pub(super) fn limit(&self) -> u64 {
        self.granted.saturating_sub(self.peer_ended)
    }

    /// Returns whether the peer has opened more than half of the streams that it may have open.
    #[inline]
    pub(super) fn is_tight(&self) -> bool {
        2 * (self.peer_opened - self.peer_ended) > self.limit()
    }

    /// Lets the peer have this many streams open at a time. Returns whether that is more than before.
    pub(super) fn widen(&mut self, limit: u64) -> bool {
        let more = limit.saturating_sub(self.limit());
        self.granted += more;
        more > 0
    }

    /// Returns, once, whether a stream that was refused can be opened now.
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
        let mut counts = StreamCounts::new(Side::Client);
        assert_eq!(counts.open(2), Some(1), "stream 0 is the client's");
        assert_eq!(counts.open(2), None);
        assert!(!counts.take_wanted(2), "as before");
        assert!(counts.take_wanted(3) && !counts.take_wanted(3));
    }

    #[test]
    fn the_peer_opens_all_up_to_the_one_it_names_and_gets_another_for_each_that_ends() {
        let mut counts = StreamCounts::new(Side::Client);
        assert!(counts.hear_of(2) && counts.hear_of(0) && counts.hear_of(1));
        assert!((0..3).all(|number| !counts.hear_of(number)), "each is new once");
        assert_eq!(counts.opened_by(Side::Server, Side::Client), 3);
        counts.on_peers_ended();
        assert_eq!((counts.granted(), counts.limit(), counts.is_tight()), (129, 128, false));
        assert_eq!(
            StreamCounts::from_saved(counts.to_saved(), Scattered::default()).to_saved(),
            [1, 3, 1, 129]
        );
        assert!(counts.hear_of(66) && counts.is_tight());
        assert!(!counts.widen(128) && counts.widen(256) && !counts.is_tight());
        assert_eq!(counts.granted(), 257);
    }
}
