//! The arrivals at both ends, and the limits that they must keep.

use whimbrel_proto::session::{DEFAULT_CREDIT, Read, SessionEvent, StreamKind, URGENT_BEYOND, URGENT_LEN};
use whimbrel_proto::{PathState, StreamId};

use super::run::Run;
use crate::pair::End;

impl Run {
    /// Takes events and reads data at both ends.
    pub(super) fn pump(&mut self) {
        self.let_go();
        if !self.over && !self.away {
            let closed = End::BOTH.map(|end| self.pair.closed(end));
            assert_eq!(closed, [None, None], "nobody closed");
        }
        for end in End::BOTH {
            self.hear(end);
            if !self.away || self.pair.closed(end).is_none() {
                self.read(end);
                self.check_limits(end);
            }
        }
    }

    fn hear(&mut self, at: End) {
        let now = self.pair.now();
        for news in self.pair.news(at) {
            match news {
                SessionEvent::Outcome(id, outcome) => self.model.on_outcome(now, at, id, outcome, self.over),
                SessionEvent::StreamOpened(stream, StreamKind::Messages) if stream != StreamId(0) => {
                    self.desk(at).messages.push(stream);
                }
                SessionEvent::StreamOpened(stream, StreamKind::Bytes) => {
                    let opening = self.pair.session(at).take_opening(stream);
                    self.model.on_opening(at, stream, opening.as_deref());
                    self.desk(at).bytes.push(stream);
                }
                SessionEvent::StreamDelivered(stream) => self.model.on_stream_delivered(at, stream),
                SessionEvent::StreamStopped(stream, code) => self.model.on_stopped(at, stream, code),
                _ => {}
            }
        }
    }

    fn read(&mut self, at: End) {
        let now = self.pair.now();
        let most = self.desk(at).most;
        let queues: Vec<Option<StreamId>> =
            self.desk(at).claimed.iter().copied().map(Some).chain([None]).collect();
        for queue in queues {
            for _ in 0..most {
                let Some(connection) = self.pair.try_connection(at) else { return };
                let session = connection.session();
                let message = match queue {
                    Some(stream) => session.recv_on(now, stream),
                    None => session.recv(now),
                };
                let Some(message) = message else {
                    self.desk(at).empty.insert(queue, now);
                    break;
                };
                let since = self.desk(at).empty.get(&queue).copied().unwrap_or_default();
                self.model.on_message(now, since, at, &message);
                if message.confirm {
                    self.pair.session(at).confirm(&message);
                    self.model.on_confirmed(&message);
                }
            }
        }
        for stream in self.desk(at).bytes.clone() {
            if !self.is_stalled(at, stream) {
                self.read_stream(at, stream, most);
            }
        }
    }

    fn read_stream(&mut self, at: End, stream: StreamId, most: usize) {
        for _ in 0..most {
            if self.model.has_ended(at, stream) {
                return;
            }
            let Some(connection) = self.pair.try_connection(at) else { return };
            match connection.session().read(stream, 4_000) {
                Ok(Read::Data(bytes)) => self.model.on_stream_data(at, stream, &bytes),
                Ok(Read::Finished) => self.model.on_stream_end(at, stream),
                Ok(Read::Reset(code)) => self.model.on_stream_reset(at, stream, code),
                Ok(Read::Blocked) => return,
                Err(error) => panic!("{at:?} cannot read {stream:?}: {error}"),
            }
        }
    }

    fn check_limits(&mut self, at: End) {
        let config = self.config.session;
        let (read, now) = (self.model.read_bytes(at), self.pair.now());
        let Some(connection) = self.pair.try_connection(at) else { return };
        let stats = connection.session_ref().stats();
        // One message or write may exceed a limit that was not reached before.
        const LONGEST: u64 = 65_000;
        let queue = stats.queue_bytes;
        let urgent = URGENT_BEYOND as u64 * URGENT_LEN;
        let streams = connection.session_ref().stream_credit(now).len() as u64;
        let most = config.send_queue_bytes + LONGEST * (5 + streams) + urgent;
        assert!(queue <= most, "{queue} bytes in the send queue");
        let most = config.send_queue_messages + 5 + URGENT_BEYOND + streams as usize;
        assert!(stats.queue_messages <= most, "{} queued", stats.queue_messages);
        let unread = stats.received_bytes.saturating_sub(read + stats.discarded_bytes);
        let latest = self.model.latest_streams(at) * (config.stream_window.max(262_144) + LONGEST);
        let shares = DEFAULT_CREDIT + streams * (config.stream_share + LONGEST);
        let most = shares + stats.credit_beyond_shares + latest;
        assert!(unread <= most, "{unread} bytes unread");
        let beyond = stats.credit_beyond_shares;
        assert!(beyond <= config.session_window, "{beyond} bytes of credit beyond shares");
        if self.second {
            self.check_openings(at);
        }
    }

    /// Checks that an opening path carries only short packets: challenges, answers and SACKs.
    fn check_openings(&mut self, at: End) {
        const SHORT: u64 = 400;
        let paths = self.pair.stats(at).paths;
        for path in paths.iter().filter(|path| path.state == PathState::Opening) {
            let (packets, bytes) = (path.sent_packets, path.sent_bytes);
            assert!(
                bytes <= packets * SHORT,
                "{at:?}: {bytes} bytes in {packets} packets before {:?} is proven",
                path.id
            );
        }
    }
}
