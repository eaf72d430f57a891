//! Settings and limits of a session.

use std::time::Duration;

use crate::StreamId;

/// The charge for each message beyond its length, bytes. It bounds the memory that a flood of empty messages can use.
pub const MESSAGE_CHARGE: u64 = 32;
/// The span of numbers in a domain: no message is begun whose number is this far above the oldest unresolved one.
pub const MAX_SPAN: u64 = 1 << 18;
/// The most ranges kept in one set, such as holes in a message, numbers passed over or outstanding answers.
pub const MAX_RANGES: usize = 8192;
/// The most answers and confirmations that may wait to be sent.
pub const MAX_NOTICES: usize = 16_384;
/// The most runs of small messages remembered for repetition.
pub const MAX_REPEATABLE: usize = 256;
/// How many messages of `urgent_priority` a full send queue still takes. They leave with the next packet, so bulk need
/// not make room for them first.
pub const URGENT_BEYOND: usize = 4;
/// The longest of these urgent messages, bytes.
pub const URGENT_LEN: u64 = 1024;
/// Credit of stream 0 at the start, bytes. Until parameters are exchanged it also limits all that may be sent, and the
/// length of a message.
pub const DEFAULT_CREDIT: u64 = 262_144;
/// Credit of every other stream before parameters are exchanged, bytes.
pub const DEFAULT_SHARE: u64 = 65_536;
/// The largest window, bytes. It keeps sums of windows from overflowing.
pub(super) const WIDEST: u64 = 1 << 48;
/// Streams that may be opened before parameters are exchanged, and before more are granted.
pub const DEFAULT_STREAMS: u64 = 128;
/// Later streams begin with one part in this many of the credit of these.
const SMALL_PART: u64 = 4;

/// The most streams that a peer may be allowed.
pub const MAX_STREAMS: u64 = 1 << 20;

/// The settings of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct SessionConfig {
    /// Longest message accepted from the peer, bytes; 16 MiB. Raised, one stream may hold that much memory beyond its
    /// window.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub max_message: u64,
    /// Credit that the streams may have together beyond their shares, bytes; 8 MiB. One stream gets at most half of it.
    /// Raised, a peer can make this end hold more; lowered, long fat paths stall.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub session_window: u64,
    /// Largest credit a stream can grow to, bytes; 4 MiB. Raised, one slow reader can make this end hold more; lowered,
    /// a single stream cannot fill a long fat path.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub stream_window: u64,
    /// Credit each stream is assured of, however many others are unread, bytes; 64 KiB, which is also the minimum.
    /// Stream 0 has at least 256 KiB, and streams from the 128th on have a quarter. Raised, a peer can make this end hold more on every stream; lowered, new streams
    /// start slowly.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub stream_share: u64,
    /// Streams the peer may have open at a time; 4,096, from 128 to 1,048,576 ([`MAX_STREAMS`]). It may open 128 at
    /// first, and more as it opens them, as far as `memory_budget` could hold what it may send on all of them. Raised,
    /// idle streams take more memory.
    pub max_streams: u64,
    /// Messages that may be queued and not yet begun before `send` returns `QueueFull`; 65,536. Four more urgent
    /// messages of up to 1,024 bytes are still taken.
    pub send_queue_messages: usize,
    /// Bytes of the messages queued and not yet begun; 32 MiB. A stream with nothing waiting may always queue one
    /// message, however full the queue is.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub send_queue_bytes: u64,
    /// Bytes a byte stream accepts and holds until they are acknowledged; 1 MiB. Raised, more memory; lowered, less
    /// throughput on long paths.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub stream_send_buffer: u64,
    /// How long delivery waits for missing unreliable messages in a sequenced domain; 100 ms. Raised, more staleness
    /// after loss; lowered, more late messages are dropped.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub gap_wait: Duration,
    /// The waiting time that one level of priority is worth; 20 ms. Raised, low priorities wait longer.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub ageing: Duration,
    /// Whether streams opened by this end are cross-sequenced; false.
    pub cross_sequencing: bool,
    /// Longest message that is repeated without a sign of loss, and copied out of receive buffers, bytes; 256. Raised,
    /// more copying; lowered, small messages hold more memory.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub small_message: usize,
    /// Messages of this priority and above that fit into one packet also go on a second path, where one works; 200.
    /// Lowered, more bytes are sent; the budget for copies of messages with a lifetime does not limit these.
    pub urgent_priority: u8,
    /// Tracked messages that may be delivered and await TAKEN; 65,536. Beyond it, a send that asks for confirmation returns `QueueFull`.
    pub max_unconfirmed: usize,
    /// Tags remembered with settings and statistics, and as many of the peer's with statistics; 4,096. Beyond it, idle
    /// tags without settings are forgotten.
    pub max_tags: usize,
}

crate::setters!(SessionConfig {
    max_message: u64,
    session_window: u64,
    stream_window: u64,
    stream_share: u64,
    max_streams: u64,
    send_queue_messages: usize,
    send_queue_bytes: u64,
    stream_send_buffer: u64,
    gap_wait: Duration,
    ageing: Duration,
    cross_sequencing: bool,
    small_message: usize,
    urgent_priority: u8,
    max_unconfirmed: usize,
    max_tags: usize,
});

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            max_message: 16 << 20,
            session_window: 8 << 20,
            stream_window: 4 << 20,
            stream_share: DEFAULT_SHARE,
            max_streams: 4096,
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
    /// The number of streams the peer may have open, within [`MAX_STREAMS`].
    pub(crate) fn streams(&self) -> u64 {
        self.max_streams.min(MAX_STREAMS)
    }

    /// Credit assured to every stream other than stream 0, bytes.
    pub(crate) fn share(&self) -> u64 {
        self.stream_share.clamp(DEFAULT_SHARE, WIDEST)
    }

    /// Credit assured to a stream, bytes.
    pub(super) fn share_of(&self, stream: StreamId, peer: &PeerLimits) -> u64 {
        if stream == StreamId(0) { self.share().max(DEFAULT_CREDIT) } else { peer.part(stream, self.share()) }
    }

    /// Largest credit a stream can grow to, bytes. `own` is the stream's own setting, if it has one.
    pub(super) fn widest(&self, own: Option<u64>) -> u64 {
        own.unwrap_or(self.stream_window).min(WIDEST)
    }
}

/// The limits the peer announced (protocol section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Initial credit of each stream, bytes. Stream 0 has at least [`DEFAULT_CREDIT`].
    pub max_stream_data: u64,
    /// Streams this end may open.
    pub max_streams: u64,
    /// Longest message the peer accepts, bytes.
    pub max_message: u64,
    /// Whether streams opened by the peer are cross-sequenced.
    pub cross_sequencing: bool,
    /// Whether the peer accepts byte streams that begin with an opening. None: it has not said.
    pub openings: Option<bool>,
    /// Whether streams from number [`DEFAULT_STREAMS`] on begin with a quarter of the credit of the others.
    pub small_shares: bool,
}

impl PeerLimits {
    /// Returns the credit with which a stream begins, bytes. `share` is that of the first streams.
    pub(super) fn part(&self, stream: StreamId, share: u64) -> u64 {
        let is_small = self.small_shares && stream.index() >= DEFAULT_STREAMS;
        if is_small { share / SMALL_PART } else { share }
    }
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            max_stream_data: DEFAULT_SHARE,
            max_streams: DEFAULT_STREAMS,
            max_message: DEFAULT_CREDIT,
            cross_sequencing: false,
            openings: None,
            small_shares: false,
        }
    }
}
