//! Streams that the peer has opened and the application has not accepted yet.

use std::collections::BTreeSet;

use whimbrel_proto::StreamId;
use whimbrel_proto::session::{Session, StreamKind};

/// The waiting streams, by kind (true for byte streams) and ID, and so in the order in which they were opened. The
/// peer decides how many there are, so no operation may look through all of them each time.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: BTreeSet<(bool, StreamId)>,
    /// Above this many streams, those that are over are removed.
    most: usize,
}

/// With fewer streams than this, it is not worthwhile to look for those that are over.
const FEW: usize = 64;

impl Backlog {
    /// Adds a stream. Removes streams that are over, once they may be half of all.
    pub(crate) fn push(&mut self, id: StreamId, kind: StreamKind, session: &Session) {
        self.waiting.insert((kind == StreamKind::Bytes, id));
        if self.waiting.len() > self.most.max(FEW) {
            self.waiting.retain(|(_, id)| session.stream_kind(*id).is_some());
            self.most = 2 * self.waiting.len();
        }
    }

    /// Returns the next stream of a kind that is not over.
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

    /// Removes a stream for which a handle was made otherwise, so that it is not accepted again.
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

    /// Returns a session with this many streams of its own, which stand for the peer's.
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

    /// Adding or accepting a stream once looked through all that waited. With that, this test would not end.
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
        // These were never opened here, as if they were over already.
        for number in 1000..100_000 {
            backlog.push(StreamId(4 * number), StreamKind::Messages, &session);
            assert!(backlog.waiting.len() <= FEW + 1);
        }
        live.iter().for_each(|id| backlog.push(*id, StreamKind::Bytes, &session));
        assert_eq!(backlog.accept(StreamKind::Messages, &session), None);
        assert_eq!(backlog.accept(StreamKind::Bytes, &session), Some(live[0]));
    }
}
