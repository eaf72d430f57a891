//! Messages, events and errors exchanged with the application, and the records of what packets carry.

use super::receive::opening::MAX_OPENING;
use std::time::Duration;

use bytes::Bytes;

use super::numbers::{Domain, StreamSlot};
use super::options::RouteClass;
use crate::wire::data::DEFAULT_PRIORITY;
use crate::{MessageId, Service, StreamId, Tag};

/// The kind of data a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Messages of all four services.
    Messages,
    /// Bytes, as in TCP. Each direction ends by itself.
    Bytes,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The stream to send it on. Stream 0 exists without being opened.
    pub stream: StreamId,
    /// The service it is sent with.
    pub service: Service,
    /// The content.
    pub payload: Bytes,
    /// The tag of its group, if any.
    pub tag: Option<Tag>,
    /// Priority from 0 to 255, higher first; 100.
    pub priority: u8,
    /// Payload protocol identifier, passed to the receiver.
    pub ppid: Option<u32>,
    /// The age at which the message is given up.
    pub lifetime: Option<Duration>,
    /// How the connection should carry it. None: as its stream's setting says.
    pub route: Option<RouteClass>,
    /// Whether its outcome is reported as an event.
    pub tracked: bool,
    /// Whether the receiver's application is asked to confirm it. The outcome is then `Taken` instead of `Delivered`.
    pub confirm: bool,
}

impl Outgoing {
    /// Returns whether the message is nothing but payload with a service and a priority, so that it can be gathered
    /// with others of its kind.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.is_unnamed() && !self.needs_exact_time() && self.ppid.is_none() && self.route.is_none()
    }

    /// Returns whether nobody can refer to the message later: it has no tag, and nobody waits for its outcome.
    #[inline]
    pub(super) fn is_unnamed(&self) -> bool {
        self.tag.is_none() && !self.tracked && !self.confirm
    }

    /// Returns whether the time at which the message is queued matters: its lifetime, or its tag's lifetime or bandwidth
    /// limit, runs from then on.
    #[inline]
    pub fn needs_exact_time(&self) -> bool {
        self.lifetime.is_some() || self.tag.is_some()
    }

    /// Creates a message with default settings.
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

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The content.
    pub payload: Bytes,
    /// The stream it came on.
    pub stream: StreamId,
    /// Its number in its order domain.
    pub id: u64,
    /// The sender's tag.
    pub tag: Option<Tag>,
    /// Payload protocol identifier.
    pub ppid: Option<u32>,
    /// The service it was sent with.
    pub service: Service,
    /// The sender's priority.
    pub priority: u8,
    /// Whether it arrived before the handshake was complete.
    pub early: bool,
    /// Whether the sender waits for the receiving program to confirm it (`Mocket::confirm` of the crate `whimbrel`).
    pub confirm: bool,
    /// Its order domain on the wire.
    pub(super) domain: Domain,
}

/// The final fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is whole in the peer's inbox.
    Delivered,
    /// The peer's application confirmed it.
    Taken,
    /// Its lifetime ended before it was delivered.
    Expired,
    /// It was cancelled before it was delivered.
    Cancelled,
    /// It was replaced by a newer message before it was delivered.
    Replaced,
    /// It was unreliable and got lost.
    Lost,
    /// The session ended before its fate was known.
    Unknown,
}

/// The limits of a tag, and defaults for its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagSettings {
    /// Most bytes per second, averaged over 100 ms.
    pub bandwidth: Option<u64>,
    /// Lifetime of messages that have none of their own.
    pub lifetime: Option<Duration>,
    /// Priority of messages that have the default priority.
    pub priority: Option<u8>,
}

/// An error from sending a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send queue is full. Wait for [`SessionEvent::Writable`], or use lifetimes or replacement for what is queued.
    #[error("the send queue is full; wait until it is writable")]
    QueueFull(Box<Outgoing>),
    /// The message is longer than the peer accepts.
    #[error("the message is longer than the peer accepts ({limit} bytes); split it or use a byte stream")]
    TooLarge {
        /// The peer's limit, bytes.
        limit: u64,
    },
    /// The session is closing or has ended.
    #[error("the session is closed")]
    Closed,
    /// The stream is not open, or not open yet.
    #[error("no such stream is open")]
    UnknownStream,
    /// The stream is of the other kind: a byte stream takes no messages, and a message stream no bytes.
    #[error("the stream is of another kind: bytes and messages need streams of their own")]
    WrongKind,
    /// The tag is not below 2^62.
    #[error("the tag is too large; use one below 2^62")]
    TagTooLarge,
    /// More than `max_tags` tags have settings or unresolved messages.
    #[error("too many tags in use")]
    TooManyTags,
}

/// An error from opening a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The peer allows no more streams now.
    #[error("the peer allows no more streams now")]
    Limit,
    /// The session is closing or has ended.
    #[error("the session is closed")]
    Closed,
    /// The opening is longer than [`MAX_OPENING`] bytes.
    #[error("the opening is longer than {MAX_OPENING} bytes: write the rest on the stream")]
    OpeningTooLong,
    /// The peer's version does not accept openings.
    #[error("the peer does not support openings: it runs an older version")]
    NoOpenings,
}

/// An error from using a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream is not open, or is over.
    #[error("no such stream is open")]
    UnknownStream,
    /// The stream is of the other kind.
    #[error("the stream is of another kind: bytes and messages need streams of their own")]
    WrongKind,
    /// This direction was finished or reset, or the session is closing.
    #[error("this direction of the stream has ended")]
    Ended,
    /// The stream shares its inbox with others. Only a stream with a queue of its own can keep the latest messages
    /// only (`MessageStream` of the crate `whimbrel`).
    #[error("the stream shares its inbox with others")]
    SharedInbox,
    /// The peer stopped the stream, with this code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
}

/// The result of reading a byte stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes.
    Data(Bytes),
    /// The peer finished the stream and everything was read.
    Finished,
    /// The peer reset the stream with this code.
    Reset(u64),
    /// There is nothing to read yet. [`SessionEvent::StreamReadable`] follows.
    Blocked,
}

/// An event for the application. At most one of each kind (and stream) is pending, and one outcome for each tracked
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The shared inbox was empty and now has messages.
    Readable,
    /// There is room again after `QueueFull`.
    Writable,
    /// The peer opened a stream.
    StreamOpened(StreamId, StreamKind),
    /// A stream with a queue of its own was empty and now has something to read, or it ended.
    StreamReadable(StreamId),
    /// A byte stream has room again.
    StreamWritable(StreamId),
    /// The peer stopped a byte stream. This direction was reset with the code.
    StreamStopped(StreamId, u64),
    /// A tracked message has its outcome.
    Outcome(MessageId, Outcome),
    /// Everything written on a byte stream has arrived, including its end.
    StreamDelivered(StreamId),
    /// The peer allows more streams, or has announced its limits.
    StreamsAvailable,
    /// The peer has used up a stream's credit and can send no more on it, because nobody here has read for a second.
    ReaderStalled {
        /// The stream.
        stream: StreamId,
        /// Bytes that wait to be read, including what each message counts beside its length.
        unread: u64,
    },
    /// Data queued on a stream has waited a second for credit: the peer's application does not read it.
    SendBlocked(StreamId),
}

/// Identifies one order domain or byte stream of a session for as long as the stream lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainKey {
    pub(super) slot: StreamSlot,
    pub(super) generation: u16,
    pub(super) domain: Domain,
}

/// A record of something a packet carried. It is handed back when the packet is acknowledged or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "opaque outside the session: the connection layer only stores it")]
pub enum Carried {
    /// Whole messages.
    Run { key: DomainKey, first: u64, count: u16 },
    /// Part of a message.
    Fragment { key: DomainKey, number: u64, offset: u64, len: u16 },
    /// Part of a byte stream, perhaps with its end.
    Bytes { key: DomainKey, offset: u64, len: u16, fin: bool },
    /// A SKIP entry.
    Skip { key: DomainKey, first: u64, count: u32 },
    /// A SKIP-ACK entry.
    SkipAck { key: DomainKey, first: u64, count: u32, delivered: bool },
    /// A SKIP-ACK entry saying that messages came too late.
    Verdict { key: DomainKey, first: u64, count: u16 },
    /// A TAKEN entry.
    Taken { key: DomainKey, first: u64, count: u32 },
    /// A MAX_STREAM_DATA block.
    MaxStreamData { key: DomainKey },
    /// A MAX_STREAMS block.
    MaxStreams,
    /// RESET of a byte stream.
    Reset { key: DomainKey },
    /// STOP of a byte stream.
    Stop { key: DomainKey },
    /// END of a stream of messages.
    End { key: DomainKey },
}

const _: () = assert!(size_of::<Carried>() <= 32);
