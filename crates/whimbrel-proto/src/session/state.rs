//! The session's state and how it begins. Its behaviour is in the files beside this one, each holding a noun or a verb.

use std::sync::Arc;

use super::account::Account;
use super::chronicle::{Chronicle, Note};
use super::config::{DEFAULT_CREDIT, PeerLimits, SessionConfig};
use super::message::{SessionEvent, StreamKind};
use super::receive::Incoming;
use super::resting::Resting;
use super::send::accounting::Accounting;
use super::send::arena::Arenas;
use super::send::lane::Outbox;
use super::send::out_blocks::OutBlocks;
use super::send::refused::Refused;
use super::send::retransmit::Retransmit;
use super::stream::{Stream, Streams};
use super::stream_counts::StreamCounts;
use crate::budget::Budgets;
use crate::{Side, StreamId, Time};

/// One end of a session. It routes work to its parts, which compute.
#[derive(Debug)]
pub struct Session {
    pub(super) side: Side,
    pub(super) config: Arc<SessionConfig>,
    pub(super) peer: PeerLimits,
    /// The time at which the connection was last driven.
    pub(super) clock: Time,
    pub(super) streams: Streams,
    pub(super) counts: StreamCounts,
    pub(super) resting: Resting,
    pub(super) account: Account,
    pub(super) accounting: Accounting,
    pub(super) outbox: Outbox,
    pub(super) arenas: Arenas,
    pub(super) out_blocks: OutBlocks,
    pub(super) retransmit: Retransmit,
    pub(super) refused: Refused,
    pub(super) next_message: u64,
    pub(super) incoming: Incoming,
    /// Whether the session takes nothing more from the application.
    pub(super) closing: bool,
    /// While the session closes, no byte stream in a slot below this has anything that is not acknowledged. The peer
    /// decides how many streams there are, so they are not all looked at for each packet.
    pub(super) drained_below: usize,
    pub(super) chronicle: Chronicle,
}

impl Session {
    /// Creates a session. Stream 0, which the client opens, already carries messages both ways.
    pub fn new(side: Side, config: impl Into<Arc<SessionConfig>>) -> Self {
        let config = config.into();
        let counts = StreamCounts::new(side);
        let share = config.share_of(StreamId(0), &PeerLimits::default());
        let mut session = Self::without_streams(side, config, counts);
        let first = Stream::new(StreamId(0), Some(StreamKind::Messages), DEFAULT_CREDIT, share);
        session.streams.insert(first);
        session
    }

    /// Creates a session without streams, for a caller that adds them.
    pub(super) fn without_streams(side: Side, config: Arc<SessionConfig>, counts: StreamCounts) -> Self {
        let (account, outbox) = (Account::new(&config), Outbox::new(config.ageing));
        Self {
            side,
            config,
            peer: PeerLimits::default(),
            clock: Time::ZERO,
            streams: Streams::default(),
            counts,
            resting: Resting::default(),
            account,
            accounting: Accounting::default(),
            outbox,
            arenas: Arenas::default(),
            out_blocks: OutBlocks::default(),
            retransmit: Retransmit::default(),
            refused: Refused::default(),
            next_message: 0,
            incoming: Incoming::default(),
            closing: false,
            drained_below: 0,
            chronicle: Chronicle::default(),
        }
    }

    /// Moves the session to these budgets, together with everything it holds.
    pub fn drawing_on(mut self, budgets: &Budgets) -> Self {
        self.account.reserve.move_to(budgets);
        self.draw_on(budgets);
        self
    }

    /// Applies the limits that the peer announced in the handshake. Credit and stream limits already granted are never
    /// lowered.
    pub fn set_peer_limits(&mut self, limits: PeerLimits) {
        self.peer.max_message = self.peer.max_message.max(limits.max_message);
        self.peer.max_stream_data = self.peer.max_stream_data.max(limits.max_stream_data);
        self.peer.max_streams = self.peer.max_streams.max(limits.max_streams);
        self.peer.cross_sequencing = limits.cross_sequencing;
        if self.peer.openings.is_none() {
            // The streams of a session are counted in one way, even if its peer is renewed.
            self.peer.small_shares = limits.small_shares;
        }
        self.peer.openings = limits.openings;
        if self.counts.take_wanted(self.peer.max_streams) {
            self.accounting.events.push_back(SessionEvent::StreamsAvailable);
        }
        self.account.sent.raise(u64::MAX);
        for stream in self.streams.open_mut() {
            stream.send_credit.raise(self.peer.part(stream.id, limits.max_stream_data));
        }
        self.outbox.unblock_all(Time::ZERO);
    }

    /// Takes what happened since the last call, for observers of the connection. Nothing is noted before the first.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        self.chronicle.take()
    }

    /// The longest message the peer may send, bytes.
    pub(super) fn longest(&self) -> u64 {
        self.config.max_message.max(DEFAULT_CREDIT)
    }

    pub(super) fn fresh_stream(&self, id: StreamId, kind: Option<StreamKind>) -> Stream {
        let credit = self.peer.part(id, self.peer.max_stream_data);
        Stream::new(id, kind, credit, self.share_of(id))
    }

    /// Returns the credit that a stream is assured of, bytes.
    pub(super) fn share_of(&self, id: StreamId) -> u64 {
        self.config.share_of(id, &self.peer)
    }
}
