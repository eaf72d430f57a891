//! What applications hand in and get out, and what the connection layer carries.

use super::receive::opening::MAX_OPENING;
use std::time::Duration;

use bytes::Bytes;

use super::numbers::{Domain, StreamSlot};
use super::options::RouteClass;
use crate::wire::data::DEFAULT_PRIORITY;
use crate::{MessageId, Service, StreamId, Tag};

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Messages of all four services.
    Messages,
    /// Bytes, as TCP does, each direction ending by itself.
    Bytes,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The stream it goes on; 0 exists without opening.
    pub stream: StreamId,
    /// How it travels.
    pub service: Service,
    /// The message.
    pub payload: Bytes,
    /// The group it belongs to.
    pub tag: Option<Tag>,
    /// 0 to 255, higher first; 100.
    pub priority: u8,
    /// Payload protocol identifier for the receiver.
    pub ppid: Option<u32>,
    /// Given up when it is older than this.
    pub lifetime: Option<Duration>,
    /// How the connection is to carry it; None: as its stream says.
    pub route: Option<RouteClass>,
    /// Its outcome is wanted as an event.
    pub tracked: bool,
    /// The receiver's application is asked to confirm it; the outcome is then `Taken`, not `Delivered`.
    pub confirm: bool,
}

impl Outgoing {
    /// A message with nothing out of the ordinary.
    pub const fn new(stream: StreamId, service: Service, payload: Bytes) -> Self {
        Self {
            stream,
            service,
            payload,
            tag: None,
            priority: DEFAULT_PRIORITY,
            ppid: None,
            lifetime: None,
            route: None,
            tracked: false,
            confirm: false,
        }
    }
}

/// A message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message.
    pub payload: Bytes,
    /// The stream it came on.
    pub stream: StreamId,
    /// Its number in its order domain.
    pub id: u64,
    /// The sender's tag.
    pub tag: Option<Tag>,
    /// Payload protocol identifier.
    pub ppid: Option<u32>,
    /// How it travelled.
    pub service: Service,
    /// The sender's priority.
    pub priority: u8,
    /// It came before the handshake was done.
    pub early: bool,
    /// The sender waits for [`crate::session::state::Session::confirm`].
    pub confirm: bool,
    /// Its order domain on the wire.
    pub(super) domain: Domain,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Whole in the peer's inbox.
    Delivered,
    /// The peer's application confirmed it.
    Taken,
    /// Its lifetime ended first.
    Expired,
    /// Cancelled first.
    Cancelled,
    /// Replaced by a newer one first.
    Replaced,
    /// Unreliable, and lost.
    Lost,
    /// The session ended first.
    Unknown,
}

/// What a tag is allowed and what its messages get where they say nothing themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagSettings {
    /// Bytes a second, averaged over 100 ms.
    pub bandwidth: Option<u64>,
    /// Lifetime of messages that have none.
    pub lifetime: Option<Duration>,
    /// Priority of messages that have the default one.
    pub priority: Option<u8>,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Wait for [`SessionEvent::Writable`], or give lifetimes or replacement to what is queued.
    #[error("the send queue is full; wait until it is writable")]
    QueueFull(Box<Outgoing>),
    /// The peer takes no message this long.
    #[error("the message is longer than the peer takes ({limit} bytes); split it or use a byte stream")]
    TooLarge {
        /// The peer's limit, bytes.
        limit: u64,
    },
    /// The session is closing or has ended.
    #[error("the session is closed")]
    Closed,
    /// Not open, or not yet.
    #[error("no such stream is open")]
    UnknownStream,
    /// A byte stream takes no messages, nor a message stream bytes.
    #[error("the stream is of the other kind")]
    WrongKind,
    /// Tags are numbers below 2^62.
    #[error("the tag is too large; use one below 2^62")]
    TagTooLarge,
    /// More tags with settings or messages than `max_tags`.
    #[error("too many tags in use")]
    TooManyTags,
}

/// Why a stream was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The peer allows no more now.
    #[error("the peer allows no more streams now")]
    Limit,
    /// The session is closing or has ended.
    #[error("the session is closed")]
    Closed,
    /// The opening is too long.
    #[error("the opening is longer than {MAX_OPENING} bytes: write the rest on the stream")]
    OpeningTooLong,
    /// The peer is of a version that takes no openings.
    #[error("the peer takes no openings: it is of an older version")]
    NoOpenings,
}

/// Why a byte stream refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Not open, or over.
    #[error("no such stream is open")]
    UnknownStream,
    /// A message stream.
    #[error("the stream is of the other kind")]
    WrongKind,
    /// This direction was finished or reset, or the session is closing.
    #[error("this direction of the stream has ended")]
    Ended,
    /// Only a stream with a queue of its own can keep the latest only: see [`crate::session::state::Session::claim_stream`].
    #[error("the stream shares its inbox with others")]
    SharedInbox,
    /// The peer wants no more; its code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
}

/// What reading a byte stream gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes.
    Data(Bytes),
    /// The peer finished and all was read.
    Finished,
    /// The peer gave up with this code.
    Reset(u64),
    /// Nothing yet: [`SessionEvent::StreamReadable`] will come.
    Blocked,
}

/// News for the application. Each kind (and stream) is pending at most once, outcomes once a tracked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The shared inbox was empty and is not.
    Readable,
    /// There is room again after `QueueFull`.
    Writable,
    /// The peer opened a stream.
    StreamOpened(StreamId, StreamKind),
    /// A stream with a queue of its own was empty and is not, or it ended.
    StreamReadable(StreamId),
    /// A byte stream has room again.
    StreamWritable(StreamId),
    /// The peer wants no more bytes; this direction was reset with the code.
    StreamStopped(StreamId, u64),
    /// What became of a tracked message.
    Outcome(MessageId, Outcome),
    /// All that was written on a byte stream, and its end, has arrived.
    StreamDelivered(StreamId),
    /// The peer allows more streams, or has said what it takes.
    StreamsAvailable,
    /// The peer has used up a stream's credit and can send no more there: nobody has read for a second.
    ReaderStalled {
        /// Which.
        stream: StreamId,
        /// Bytes that wait to be read, with what each message counts beside its length.
        unread: u64,
    },
    /// What is queued on a stream has waited for a second for credit: the peer's application does not read it.
    SendBlocked(StreamId),
}

/// Names one order domain or byte stream of a session for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainKey {
    pub(super) slot: StreamSlot,
    pub(super) generation: u16,
    pub(super) domain: Domain,
}

/// What rode in a packet: handed back with the packet's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "opaque outside the session: the connection layer only stores it")]
pub enum Carried {
    /// Whole messages.
    Run { key: DomainKey, first: u64, count: u16 },
    /// Part of a message.
    Fragment { key: DomainKey, number: u64, offset: u64, len: u16 },
    /// Part of a byte stream, perhaps its end.
    Bytes { key: DomainKey, offset: u64, len: u16, fin: bool },
    /// A SKIP entry.
    Skip { key: DomainKey, first: u64, count: u32 },
    /// A SKIP-ACK entry.
    SkipAck { key: DomainKey, first: u64, count: u32, delivered: bool },
    /// What was said of messages that came too late.
    Verdict { key: DomainKey, first: u64, count: u16 },
    /// A TAKEN entry.
    Taken { key: DomainKey, first: u64, count: u32 },
    /// A stream's credit.
    MaxStreamData { key: DomainKey },
    /// The streams allowed.
    MaxStreams,
    /// RESET of a byte stream.
    Reset { key: DomainKey },
    /// STOP of a byte stream.
    Stop { key: DomainKey },
    /// END of a stream of messages.
    End { key: DomainKey },
}

const _: () = assert!(size_of::<Carried>() <= 32);
