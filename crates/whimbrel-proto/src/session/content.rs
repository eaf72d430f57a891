//! The two things a stream can carry, and the state that only one of them needs.

use super::message::StreamKind;
use super::numbers::Domain;
use super::options::StreamOptions;
use super::receive::bytes_in::BytesIn;
use super::receive::inbox::Inbox;
use super::receive::latest::Latest;
use super::receive::receiving::RecvDomain;
use super::send::arena::Arena;
use super::send::bytes_out::BytesOut;
use super::send::send_item::SendItem;
use super::send::sending::SendDomain;
use crate::StreamId;
use crate::wire::data::DEFAULT_PRIORITY;

/// The content of a stream: messages or bytes.
#[derive(Debug)]
pub(super) enum Content {
    /// Not known yet: only later streams of the peer were named.
    Unknown,
    Messages(Box<MessageHalves>),
    Bytes(Box<ByteHalves>),
}

/// Both directions of a stream of messages.
#[derive(Debug, Default)]
pub(super) struct MessageHalves {
    pub(super) send: [Option<Box<SendDomain>>; 4],
    pub(super) recv: [Option<Box<RecvDomain>>; 4],
    pub(super) arena: Arena,
    pub(super) options: StreamOptions,
    /// Unread messages, if the stream has an inbox of its own.
    pub(super) inbox: Inbox,
    /// Unread unreliable messages, if only the latest are wanted. They are not in `inbox` then.
    pub(super) latest: Option<Box<Latest>>,
}

/// Both directions of a byte stream.
#[derive(Debug)]
pub(super) struct ByteHalves {
    pub(super) out: BytesOut,
    pub(super) into: BytesIn,
    priority: u8,
    window: Option<u64>,
}

impl Content {
    pub(super) fn new(kind: Option<StreamKind>, id: StreamId) -> Self {
        match kind {
            None => Self::Unknown,
            Some(StreamKind::Messages) => {
                Self::Messages(Box::new(MessageHalves { inbox: Inbox::of(id), ..MessageHalves::default() }))
            }
            Some(StreamKind::Bytes) => Self::bytes(BytesOut::default(), BytesIn::default()),
        }
    }

    /// Creates a byte stream of these directions.
    pub(super) fn bytes(out: BytesOut, into: BytesIn) -> Self {
        Self::Bytes(Box::new(ByteHalves { out, into, priority: DEFAULT_PRIORITY, window: None }))
    }

    /// Returns the priority of data that has none of its own.
    #[inline]
    pub(super) fn priority(&self) -> u8 {
        match self {
            Self::Unknown => DEFAULT_PRIORITY,
            Self::Messages(halves) => halves.options.priority,
            Self::Bytes(halves) => halves.priority,
        }
    }

    pub(super) fn set_priority(&mut self, priority: u8) {
        match self {
            Self::Unknown => {}
            Self::Messages(halves) => halves.options.priority = priority,
            Self::Bytes(halves) => halves.priority = priority,
        }
    }

    /// Returns the largest credit that the peer's window grows to. None: the session's setting.
    pub(super) fn window(&self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Messages(halves) => halves.options.window,
            Self::Bytes(halves) => halves.window,
        }
    }

    pub(super) fn set_window(&mut self, window: Option<u64>) {
        match self {
            Self::Unknown => {}
            Self::Messages(halves) => halves.options.window = window,
            Self::Bytes(halves) => halves.window = window,
        }
    }

    /// Returns all settings. Those that only messages have are the defaults for other streams.
    pub(super) fn options(&self) -> StreamOptions {
        let own = self.messages().map(|halves| halves.options);
        let others =
            || StreamOptions { priority: self.priority(), window: self.window(), ..Default::default() };
        own.unwrap_or_else(others)
    }

    pub(super) fn kind(&self) -> Option<StreamKind> {
        match self {
            Self::Unknown => None,
            Self::Messages(_) => Some(StreamKind::Messages),
            Self::Bytes(_) => Some(StreamKind::Bytes),
        }
    }

    #[inline]
    pub(super) fn messages(&self) -> Option<&MessageHalves> {
        if let Self::Messages(halves) = self { Some(halves) } else { None }
    }

    #[inline]
    pub(super) fn messages_mut(&mut self) -> Option<&mut MessageHalves> {
        if let Self::Messages(halves) = self { Some(halves) } else { None }
    }

    /// Returns a domain in which messages were sent.
    pub(super) fn sending(&self, domain: Domain) -> Option<&SendDomain> {
        self.messages()?.send.get(domain.index())?.as_deref()
    }

    /// Returns a domain in which messages were sent.
    #[inline]
    pub(super) fn sending_mut(&mut self, domain: Domain) -> Option<&mut SendDomain> {
        self.messages_mut()?.sending_mut(domain)
    }

    /// Returns a domain in which messages were received.
    pub(super) fn receiving(&self, domain: Domain) -> Option<&RecvDomain> {
        self.messages()?.recv.get(domain.index())?.as_deref()
    }

    /// Returns a domain in which messages were received.
    #[inline]
    pub(super) fn receiving_mut(&mut self, domain: Domain) -> Option<&mut RecvDomain> {
        self.messages_mut()?.receiving_mut(domain)
    }

    #[inline]
    pub(super) fn bytes_out(&self) -> Option<&BytesOut> {
        if let Self::Bytes(halves) = self { Some(&halves.out) } else { None }
    }

    #[inline]
    pub(super) fn bytes_out_mut(&mut self) -> Option<&mut BytesOut> {
        if let Self::Bytes(halves) = self { Some(&mut halves.out) } else { None }
    }

    #[inline]
    pub(super) fn bytes_in(&self) -> Option<&BytesIn> {
        if let Self::Bytes(halves) = self { Some(&halves.into) } else { None }
    }

    #[inline]
    pub(super) fn bytes_in_mut(&mut self) -> Option<&mut BytesIn> {
        if let Self::Bytes(halves) = self { Some(&mut halves.into) } else { None }
    }

    /// Returns the memory held for the peer, bytes.
    #[inline]
    pub(super) fn memory(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Messages(halves) => size_of::<MessageHalves>() as u64 + halves.memory(),
            Self::Bytes(halves) => size_of::<ByteHalves>() as u64 + halves.into.memory(),
        }
    }

    /// Returns the bytes sent and not acknowledged.
    pub(super) fn outgoing_bytes(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Messages(halves) => {
                let items = halves.send.iter().flatten().flat_map(|domain| domain.items());
                items.filter(|item| item.is_live()).map(SendItem::charge).sum()
            }
            Self::Bytes(halves) => halves.out.buffered(),
        }
    }

    /// Returns the bytes in the send buffer of a byte stream.
    pub(super) fn kept_out(&self) -> u64 {
        self.bytes_out().map_or(0, BytesOut::kept)
    }

    /// Frees the queues of a byte stream that is still at rest.
    pub(super) fn rest(&mut self) {
        if let Self::Bytes(halves) = self {
            halves.trim();
        }
    }

    /// Frees memory that is kept for speed.
    pub(super) fn trim(&mut self) {
        match self {
            Self::Unknown => {}
            Self::Messages(halves) => halves.trim(),
            Self::Bytes(halves) => halves.trim(),
        }
    }

    /// Returns the bytes of unread messages of which only the latest are wanted.
    pub(super) fn latest_bytes(&self) -> u64 {
        let latest = self.messages().and_then(|halves| halves.latest.as_ref());
        latest.map_or(0, |latest| latest.bytes())
    }
}

impl MessageHalves {
    /// Returns a domain in which messages were sent.
    #[inline]
    pub(super) fn sending_mut(&mut self, domain: Domain) -> Option<&mut SendDomain> {
        self.send.get_mut(domain.index())?.as_deref_mut()
    }

    /// Returns a domain in which messages were received.
    #[inline]
    pub(super) fn receiving_mut(&mut self, domain: Domain) -> Option<&mut RecvDomain> {
        self.recv.get_mut(domain.index())?.as_deref_mut()
    }

    #[inline]
    fn memory(&self) -> u64 {
        let domains: u64 = self.recv.iter().flatten().map(|domain| domain.memory()).sum();
        domains + self.inbox.memory() + self.latest.as_ref().map_or(0, |latest| latest.memory())
    }

    /// Returns whether everything received was read.
    pub(super) fn is_read(&self) -> bool {
        self.inbox.is_empty() && self.latest.as_ref().is_none_or(|latest| latest.len() == (0, 0))
    }

    /// Returns whether every message sent has its outcome.
    pub(super) fn is_settled(&self) -> bool {
        self.send.iter().flatten().all(|domain| domain.is_settled())
    }

    /// The arena's share in the session's sum is not changed.
    fn trim(&mut self) {
        self.arena = Arena::default();
        self.inbox.shrink();
        self.send.iter_mut().flatten().for_each(|domain| domain.trim());
    }
}

impl ByteHalves {
    /// Frees the queues of the directions that are at rest.
    fn trim(&mut self) {
        self.out.trim();
        self.into.trim();
    }
}
