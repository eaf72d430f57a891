//! The session: messages, streams, order, credit, tags, priorities, lifetimes, outcomes.
//!
//! A message waits in a *lane* (`lane`), gets its number when it is first sent and moves to its order domain's
//! list of what is in flight (`sending`), and ends with an [`Outcome`]. On the other side a domain (`receiving`)
//! finds duplicates, puts parts together and restores order; what is in turn waits in an inbox. Byte streams have a
//! pair of halves of their own (`bytes_out`, `bytes_in`). Numbers index ring buffers; nothing is looked up by
//! hash. What a packet carried is told by [`Carried`], and everything is plain data.

mod accounting;
mod admission;
mod api;
mod arena;
mod assembly;
mod batch;
mod bytes_in;
mod bytes_out;
mod config;
mod copies;
mod credit;
mod data_out;
mod end;
mod far;
mod fate;
mod fill;
mod fragments;
mod gaps;
mod gather;
mod held;
mod inbound;
mod inbox;
mod lane;
mod late;
mod latest;
mod message;
mod notices;
mod notices_in;
mod options;
mod others;
mod out_blocks;
mod pace;
mod queue;
mod ranges;
mod reading;
mod receiving;
mod resend;
mod reserve;
mod retransmit;
mod run;
mod scattered;
mod send_item;
mod sending;
mod skip_answers;
mod snapshot;
mod stalls;
mod stats;
mod stream;
mod streams_api;
mod tag_stats;
#[cfg(test)]
mod tests;
mod waiting;
mod window;

pub use admission::{Admission, MAX_BESIDE, MAX_BESIDE_BYTES};
pub use batch::{Batch, MessageRef};
pub use config::{
    DEFAULT_CREDIT, DEFAULT_SHARE, DEFAULT_STREAMS, MAX_NOTICES, MAX_RANGES, MAX_REPEATABLE, MAX_SPAN,
    MESSAGE_CHARGE, PeerLimits, SessionConfig, URGENT_BEYOND, URGENT_LEN,
};
pub use message::{
    Carried, DomainKey, Message, OpenError, Outcome, Outgoing, Read, SendError, SessionEvent, StreamError,
    StreamKind, TagSettings,
};
pub use options::{CreditPolicy, RouteClass, StreamOptions};
pub use snapshot::{SNAPSHOT_VERSION, SnapshotError};
pub use stalls::StreamCredit;
pub use stats::{Counters, SessionStats};
pub use tag_stats::TagStats;

use crate::budget::Budgets;
use crate::{Side, StreamId, Time};
use accounting::Accounting;
use arena::Arenas;
use assembly::Spares;
pub(crate) use copies::{Copied, Copies};
use credit::{Received, SendCredit};
pub(crate) use data_out::Flow;
use gaps::Gaps;
use held::Held;
use inbox::Inbox;
use lane::Outbox;
use out_blocks::OutBlocks;
use pace::GrantDelay;
use reserve::Reserve;
use retransmit::Retransmit;
use stalls::Stalls;
use stream::{Stream, Streams};
use tag_stats::ReceivedTags;

/// One end of a session. It routes; its parts compute.
#[derive(Debug)]
pub struct Session {
    side: Side,
    config: SessionConfig,
    /// Shared with the other sessions of the endpoint.
    budgets: Budgets,
    peer: PeerLimits,
    streams: Streams,
    outbox: Outbox,
    accounting: Accounting,
    out_blocks: OutBlocks,
    spares: Spares,
    retransmit: Retransmit,
    /// What was sent on all streams, limited until the peer has said what it takes.
    sent: SendCredit,
    received: Received,
    reserve: Reserve,
    grant_delay: GrantDelay,
    stalls: Stalls,
    /// When the connection was last driven.
    clock: Time,
    inbox: Inbox,
    received_tags: ReceivedTags,
    /// Domains in which a whole message waits behind a gap.
    gaps: Gaps,
    arenas: Arenas,
    held: Held,
    next_message: u64,
    /// Streams this side has opened.
    opened: u64,
    /// Streams the peer has opened, and those of them that ended.
    peer_opened: u64,
    peer_ended: u64,
    streams_granted: u64,
    wants_writable: bool,
    /// Streams whose messages were refused since the queue was full.
    turns: Vec<u32>,
    /// A message was refused because too many await their confirmation.
    wants_taken: bool,
    wants_streams: bool,
    readable_told: bool,
    closing: bool,
}

impl Session {
    /// A session in which stream 0, the client's first, carries messages both ways already.
    pub fn new(side: Side, config: SessionConfig) -> Self {
        let mut streams = Streams::default();
        let share = config.share_of(StreamId(0));
        streams.insert(Stream::new(StreamId(0), Some(StreamKind::Messages), DEFAULT_CREDIT, share));
        let budgets = Budgets::unlimited();
        let streams_granted = config.max_streams.max(DEFAULT_STREAMS);
        Self {
            side,
            config,
            reserve: Reserve::new(config.session_window, &budgets),
            budgets,
            peer: PeerLimits::default(),
            streams,
            outbox: Outbox::new(config.ageing),
            accounting: Accounting::default(),
            out_blocks: OutBlocks::default(),
            spares: Spares::default(),
            retransmit: Retransmit::default(),
            sent: SendCredit::new(DEFAULT_CREDIT),
            received: Received::default(),
            grant_delay: GrantDelay::default(),
            stalls: Stalls::default(),
            clock: Time::ZERO,
            inbox: Inbox::default(),
            received_tags: ReceivedTags::default(),
            gaps: Gaps::default(),
            arenas: Arenas::default(),
            held: Held::default(),
            next_message: 0,
            opened: u64::from(side == Side::Client),
            peer_opened: u64::from(side == Side::Server),
            peer_ended: 0,
            streams_granted,
            wants_writable: false,
            turns: Vec::new(),
            wants_taken: false,
            wants_streams: false,
            readable_told: false,
            closing: false,
        }
    }

    /// The session draws on these budgets from now on, with all it holds.
    pub fn drawing_on(mut self, budgets: &Budgets) -> Self {
        self.reserve.move_to(budgets);
        self.budgets = budgets.clone();
        self.draw_on(budgets);
        self
    }

    /// The handshake said what the peer takes. Never lowers what holds already.
    pub fn set_peer_limits(&mut self, limits: PeerLimits) {
        self.peer.max_message = limits.max_message;
        self.peer.max_stream_data = self.peer.max_stream_data.max(limits.max_stream_data);
        self.peer.max_streams = self.peer.max_streams.max(limits.max_streams);
        self.peer.cross_sequencing = limits.cross_sequencing;
        self.sent.raise(u64::MAX);
        for slot in self.streams.slots() {
            if let Some(stream) = self.streams.at_mut(slot) {
                stream.send_credit.raise(limits.max_stream_data);
            }
        }
        self.outbox.unblock_all(Time::ZERO);
    }

    /// The longest message the peer may send, bytes.
    fn longest(&self) -> u64 {
        self.config.max_message.max(DEFAULT_CREDIT)
    }

    fn fresh_stream(&self, id: StreamId, kind: Option<StreamKind>) -> Stream {
        Stream::new(id, kind, self.peer.max_stream_data, self.config.share())
    }
}
