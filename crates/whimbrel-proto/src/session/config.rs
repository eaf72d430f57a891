//! Settings and limits of a session.

use std::time::Duration;

use crate::StreamId;

/// What every message is charged on top of its length, bytes: bounds what a flood of empty messages makes grow.
pub const MESSAGE_CHARGE: u64 = 32;
/// No message is begun whose number is this far above the oldest unresolved one of its domain.
pub const MAX_SPAN: u64 = 1 << 18;
/// Ranges remembered in one set (holes in a message, numbers passed over, answers outstanding).
pub const MAX_RANGES: usize = 8192;
/// Answers and confirmations waiting to be sent.
pub const MAX_NOTICES: usize = 16_384;
/// Runs of small messages remembered for repetition.
pub const MAX_REPEATABLE: usize = 256;
/// Messages of `urgent_priority` that a full send queue takes all the same: they leave with the next packet, so bulk need not make room
/// for them first.
pub const URGENT_BEYOND: usize = 4;
/// The longest of those, bytes.
pub const URGENT_LEN: u64 = 1024;
/// Credit of stream 0 at the start; all that may be sent before parameters were exchanged, and the longest message until then, bytes.
pub const DEFAULT_CREDIT: u64 = 262_144;
/// Credit of any other stream before parameters were exchanged, bytes.
pub const DEFAULT_SHARE: u64 = 65_536;
/// Windows are not larger than this, bytes, so that sums of them do not overflow.
pub(super) const WIDEST: u64 = 1 << 48;
/// Streams that may be opened before parameters were exchanged.
pub const DEFAULT_STREAMS: u64 = 128;

/// The most streams that a peer may be allowed.
pub const MAX_STREAMS: u64 = 1 << 20;

/// One session's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Longest message taken from the peer, bytes; 16 MiB. Raised, one stream may hold that much memory beyond its window.
    pub max_message: u64,
    /// Credit its streams may have together beyond their shares, bytes; 8 MiB. One stream gets half of it at the most. Raised, a peer can make
    /// us hold more; lowered, long fat paths stall.
    pub session_window: u64,
    /// The most that a stream's credit grows to, bytes; 4 MiB. Raised, one slow reader can make us hold more; lowered, one stream alone cannot
    /// fill a long fat path.
    pub stream_window: u64,
    /// Credit that each stream is assured of, however many others are not read, bytes; 64 KiB, which is the least. Stream 0 has 256 KiB at
    /// least. Raised, a peer can make us hold more on every stream; lowered, new streams start slowly.
    pub stream_share: u64,
    /// Streams the peer may have open; 128, and 1,048,576 ([`MAX_STREAMS`]) at the most. Raised, memory of idle streams: `memory_budget` bounds
    /// it, whatever is said here.
    pub max_streams: u64,
    /// Messages queued and not yet begun before `send` answers `QueueFull`; 65,536. Four urgent ones of up to 1,024 bytes more are taken.
    pub send_queue_messages: usize,
    /// Bytes of them; 32 MiB. A stream of which nothing waits takes any message, however full the queue is of others'.
    pub send_queue_bytes: u64,
    /// Bytes a byte stream takes ahead of their acknowledgement; 1 MiB. Raised, memory; lowered, throughput of long paths.
    pub stream_send_buffer: u64,
    /// How long a gap of unreliable messages in a sequenced domain is waited for; 100 ms. Raised, staleness after loss;
    /// lowered, more late messages dropped.
    pub gap_wait: Duration,
    /// What one level of priority is worth in waiting time; 20 ms. Raised, low priorities wait longer.
    pub ageing: Duration,
    /// Streams this side opens are cross-sequenced; false.
    pub cross_sequencing: bool,
    /// Longest message that is repeated on the chance, and copied out of receive buffers, bytes; 256. Raised, more copying; lowered,
    /// more memory held by small messages.
    pub small_message: usize,
    /// Messages of this priority and above that fit into one packet go on a second path too, where one works; 200. Lowered, more bytes;
    /// no lifetime's budget holds for them either.
    pub urgent_priority: u8,
    /// Messages awaiting TAKEN; 65,536. Beyond it, a send that asks for confirmation is `QueueFull`.
    pub max_unconfirmed: usize,
    /// Tags remembered (settings and statistics), and as many of the peer's (statistics); 4,096. Beyond it those idle and without settings are forgotten.
    pub max_tags: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            max_message: 16 << 20,
            session_window: 8 << 20,
            stream_window: 4 << 20,
            stream_share: DEFAULT_SHARE,
            max_streams: 128,
            send_queue_messages: 65_536,
            send_queue_bytes: 32 << 20,
            stream_send_buffer: 1 << 20,
            gap_wait: Duration::from_millis(100),
            ageing: Duration::from_millis(20),
            cross_sequencing: false,
            small_message: 256,
            urgent_priority: 200,
            max_unconfirmed: 65_536,
            max_tags: 4096,
        }
    }
}

impl SessionConfig {
    /// Streams the peer may have open.
    pub(crate) fn streams(&self) -> u64 {
        self.max_streams.min(MAX_STREAMS)
    }

    /// Credit that every stream but stream 0 is assured of, bytes.
    pub(crate) fn share(&self) -> u64 {
        self.stream_share.clamp(DEFAULT_SHARE, WIDEST)
    }

    /// Credit that a stream is assured of, bytes.
    pub(super) fn share_of(&self, stream: StreamId) -> u64 {
        if stream == StreamId(0) { self.share().max(DEFAULT_CREDIT) } else { self.share() }
    }

    /// The most that a stream's credit grows to, bytes, where it has this setting of its own.
    pub(super) fn widest(&self, own: Option<u64>) -> u64 {
        own.unwrap_or(self.stream_window).min(WIDEST)
    }
}

/// What the peer said it takes (protocol section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Credit of each stream at start, bytes; stream 0 has at least [`DEFAULT_CREDIT`].
    pub max_stream_data: u64,
    /// Streams we may open.
    pub max_streams: u64,
    /// Longest message it takes, bytes.
    pub max_message: u64,
    /// Streams it opens are cross-sequenced.
    pub cross_sequencing: bool,
    /// It takes byte streams that begin with an opening. None: it has not said.
    pub openings: Option<bool>,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            max_stream_data: DEFAULT_SHARE,
            max_streams: DEFAULT_STREAMS,
            max_message: DEFAULT_CREDIT,
            cross_sequencing: false,
            openings: None,
        }
    }
}
