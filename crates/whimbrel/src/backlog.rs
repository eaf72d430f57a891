//! Streams that the peer has opened and nobody has accepted yet.

use std::collections::BTreeSet;

use whimbrel_proto::StreamId;
use whimbrel_proto::session::{Session, StreamKind};

/// They are kept by kind (byte streams are `true`) and number, so in the order in which they were opened. The peer decides how many there
/// are, so nothing here looks through all of them each time.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: BTreeSet<(bool, StreamId)>,
    /// With more than this, those that are over are looked for.
    most: usize,
}

/// With fewer it is not worth while to look for those that are over.
const FEW: usize = 64;

impl Backlog {
    /// One more waits. Of those that wait, the ones that are over are forgotten once they may be half of all.
    pub(crate) fn push(&mut self, id: StreamId, kind: StreamKind, session: &Session) {
        self.waiting.insert((kind == StreamKind::Bytes, id));
        if self.waiting.len() > self.most.max(FEW) {
            self.waiting.retain(|(_, id)| session.stream_kind(*id).is_some());
            self.most = 2 * self.waiting.len();
        }
    }

    /// The next of a kind that is not over.
    pub(crate) fn accept(&mut self, kind: StreamKind, session: &Session) -> Option<StreamId> {
        let of_kind = |id| (kind == StreamKind::Bytes, StreamId(id));
        loop {
            let first = *self.waiting.range(of_kind(0)..=of_kind(u64::MAX)).next()?;
            self.waiting.remove(&first);
            if session.stream_kind(first.1).is_some() {
                return Some(first.1);
            }
        }
    }

    /// Somebody has a handle on a stream of the peer's: it is offered to nobody else.
    pub(crate) fn was_accepted(&mut self, id: StreamId) {
        self.waiting.remove(&(false, id));
        self.waiting.remove(&(true, id));
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_proto::Side;
    use whimbrel_proto::session::{PeerLimits, Session, SessionConfig};

    use super::*;

    /// A session with as many streams of its own, which stand for the peer's.
    fn session(streams: u64) -> Session {
        let mut session = Session::new(Side::Client, SessionConfig::default());
        for _ in 0..streams {
            session.open_stream(StreamKind::Bytes).unwrap();
        }
        session
    }

    #[test]
    fn each_kind_comes_in_the_order_of_opening() {
        let (mut backlog, session) = (Backlog::default(), session(10));
        let ids: Vec<StreamId> = session.byte_streams();
        for id in ids.iter().rev() {
            backlog.push(*id, StreamKind::Bytes, &session);
        }
        backlog.was_accepted(ids[1]);
        assert_eq!(backlog.accept(StreamKind::Messages, &session), None);
        let accepted: Vec<_> = std::iter::from_fn(|| backlog.accept(StreamKind::Bytes, &session)).collect();
        assert_eq!(accepted, [&ids[..1], &ids[2..]].concat());
    }

    /// All that waited was looked through for each stream, and once more to accept it: with so many the test would not end.
    #[test]
    fn regression_a_long_backlog_costs_each_stream_the_same() {
        let (mut backlog, mut session) = (Backlog::default(), session(0));
        session.set_peer_limits(PeerLimits { max_streams: 300_000, ..PeerLimits::default() });
        let ids: Vec<StreamId> =
            (0..200_000).map(|_| session.open_stream(StreamKind::Bytes).unwrap()).collect();
        for id in &ids {
            backlog.push(*id, StreamKind::Bytes, &session);
        }
        assert!(ids.iter().all(|id| backlog.accept(StreamKind::Bytes, &session) == Some(*id)));
    }

    #[test]
    fn streams_that_are_over_are_not_kept() {
        let (mut backlog, session) = (Backlog::default(), session(3));
        let live = session.byte_streams();
        // Never opened here: as if they had been and were gone.
        for number in 1000..100_000 {
            backlog.push(StreamId(4 * number), StreamKind::Messages, &session);
            assert!(backlog.waiting.len() <= FEW + 1);
        }
        live.iter().for_each(|id| backlog.push(*id, StreamKind::Bytes, &session));
        assert_eq!(backlog.accept(StreamKind::Messages, &session), None);
        assert_eq!(backlog.accept(StreamKind::Bytes, &session), Some(live[0]));
    }
}
