//! A stream, and the table of streams.

use std::collections::BTreeMap;

use super::account::credit::{RecvCredit, SendCredit};
use super::account::held::{of_map, of_queue};
use super::content::{Content, MessageHalves};
use super::end_out::EndOut;
use super::message::{DomainKey, StreamKind};
use super::numbers::{Domain, LaneSlot, StreamSlot};
use super::receive::bytes_in::BytesIn;
use super::receive::receiving::RecvDomain;
use super::send::bytes_out::BytesOut;
use super::send::sending::SendDomain;
use crate::StreamId;
use crate::expected::Expected;

/// The `DomainKey::domain` of a key that names a whole stream.
pub(super) const WHOLE: Domain = Domain::WHOLE;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) content: Content,
    pub(super) send_credit: SendCredit,
    pub(super) recv_credit: RecvCredit,
    pub(super) lanes: Vec<LaneSlot>,
    /// Whether the stream has an inbox of its own.
    pub(super) claimed: bool,
    /// Whether the peer's direction is cross-sequenced. The first sequenced message received fixes it.
    pub(super) cross_in: Option<bool>,
    pub(super) cross_out: Option<bool>,
    /// Whether a `StreamReadable` event waits to be polled.
    pub(super) readable_told: bool,
    pub(super) end_out: EndOut,
    /// Whether the peer's direction of a message stream has ended.
    pub(super) ended_in: bool,
    /// Memory held for the peer when the stream was last weighed, bytes.
    pub(super) weight: u64,
}

impl Stream {
    pub(super) fn new(id: StreamId, kind: Option<StreamKind>, send_limit: u64, share: u64) -> Self {
        Self {
            id,
            content: Content::new(kind, id),
            send_credit: SendCredit::new(send_limit),
            recv_credit: RecvCredit::new(share),
            lanes: Vec::new(),
            claimed: false,
            cross_in: None,
            cross_out: None,
            readable_told: false,
            end_out: EndOut::Open,
            ended_in: false,
            weight: 0,
        }
    }

    pub(super) fn kind(&self) -> Option<StreamKind> {
        self.content.kind()
    }

    /// Returns the bytes kept in addition to what the session counts as a whole: sent and unacknowledged, and the
    /// latest unread.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.content.outgoing_bytes() + self.content.latest_bytes()
    }

    /// Returns what can be sent on the stream: nothing once this direction of a message stream is ending.
    #[inline]
    pub(super) fn takes(&self) -> Option<StreamKind> {
        self.kind().filter(|_| self.end_out == EndOut::Open)
    }

    /// Fixes what the stream carries.
    pub(super) fn become_kind(&mut self, kind: StreamKind) {
        self.content = Content::new(Some(kind), self.id);
    }
}

#[derive(Debug, Default)]
struct Entry {
    generation: u16,
    stream: Option<Box<Stream>>,
}

/// Streams by slot. A slot is reused under a new generation.
#[derive(Debug, Default)]
pub(super) struct Streams {
    slots: Vec<Entry>,
    free: Vec<StreamSlot>,
    by_id: BTreeMap<StreamId, StreamSlot>,
    last: Option<(StreamId, StreamSlot)>,
}

impl Streams {
    pub(super) fn insert(&mut self, stream: Stream) -> StreamSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            if self.slots.is_empty() {
                // Most sessions have only this one stream.
                self.slots.reserve_exact(1);
            }
            self.slots.push(Entry::default());
            StreamSlot((self.slots.len() - 1) as u32)
        });
        self.by_id.insert(stream.id, slot);
        self.slots[slot.index()].stream = Some(Box::new(stream));
        slot
    }

    /// Removes the stream from a slot that is known to be taken.
    #[track_caller]
    pub(super) fn remove(&mut self, slot: StreamSlot) -> Option<Box<Stream>> {
        let entry = self.slots.get_mut(slot.index()).expected("a slot")?;
        let stream = entry.stream.take().expected("a stream")?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
        self.by_id.remove(&stream.id);
        self.last = None;
        Some(stream)
    }

    #[inline]
    pub(super) fn find(&mut self, id: StreamId) -> Option<StreamSlot> {
        if let Some((last, slot)) = self.last
            && last == id
        {
            return Some(slot);
        }
        let slot = *self.by_id.get(&id)?;
        self.last = Some((id, slot));
        Some(slot)
    }

    /// Returns the stream with this id, unless it is over.
    pub(super) fn look(&self, id: StreamId) -> Option<&Stream> {
        self.by_id.get(&id).and_then(|slot| self.held(*slot))
    }

    /// Returns the stream with this id, unless it is over.
    pub(super) fn look_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let slot = self.find(id)?;
        self.held_mut(slot)
    }

    /// Returns the stream in a slot that is known to be taken.
    #[inline]
    #[track_caller]
    pub(super) fn held(&self, slot: StreamSlot) -> Option<&Stream> {
        self.if_taken(slot).expected("a stream")
    }

    /// Returns the stream in a slot that is known to be taken.
    #[inline]
    #[track_caller]
    pub(super) fn held_mut(&mut self, slot: StreamSlot) -> Option<&mut Stream> {
        self.slots.get_mut(slot.index()).and_then(|entry| entry.stream.as_deref_mut()).expected("a stream")
    }

    /// Returns the halves of a stream that is known to carry messages.
    #[inline]
    #[track_caller]
    pub(super) fn messages_mut(&mut self, slot: StreamSlot) -> Option<&mut MessageHalves> {
        self.held_mut(slot)?.content.messages_mut().expected("what a stream has for messages")
    }

    /// Returns the outgoing half of a stream that is known to carry bytes.
    #[inline]
    #[track_caller]
    pub(super) fn bytes_out_mut(&mut self, slot: StreamSlot) -> Option<&mut BytesOut> {
        self.held_mut(slot)?.content.bytes_out_mut().expected("the outgoing half of a byte stream")
    }

    /// Returns the incoming half of a stream that is known to carry bytes.
    #[inline]
    #[track_caller]
    pub(super) fn bytes_in_mut(&mut self, slot: StreamSlot) -> Option<&mut BytesIn> {
        self.held_mut(slot)?.content.bytes_in_mut().expected("the incoming half of a byte stream")
    }

    /// Returns the outgoing half of a byte stream, if it still exists.
    #[inline]
    #[track_caller]
    pub(super) fn still_bytes_out_mut(&mut self, key: DomainKey) -> Option<&mut BytesOut> {
        self.still_mut(key)?.content.bytes_out_mut().expected("the outgoing half of a byte stream")
    }

    /// Returns the incoming half of a byte stream, if it still exists.
    #[inline]
    #[track_caller]
    pub(super) fn still_bytes_in_mut(&mut self, key: DomainKey) -> Option<&mut BytesIn> {
        self.still_mut(key)?.content.bytes_in_mut().expected("the incoming half of a byte stream")
    }

    /// Returns the stream in a slot that may be free.
    pub(super) fn if_taken(&self, slot: StreamSlot) -> Option<&Stream> {
        self.slots.get(slot.index())?.stream.as_deref()
    }

    pub(super) fn key(&self, slot: StreamSlot, domain: Domain) -> DomainKey {
        let generation = self.slots.get(slot.index()).map_or(0, |slot| slot.generation);
        DomainKey { slot, generation, domain }
    }

    /// Returns the stream that a key was made for, if it still exists.
    #[inline]
    pub(super) fn still(&self, key: DomainKey) -> Option<&Stream> {
        self.slots.get(key.slot.index()).filter(|slot| slot.generation == key.generation)?.stream.as_deref()
    }

    /// Returns the stream that a key was made for, if it still exists.
    #[inline]
    pub(super) fn still_mut(&mut self, key: DomainKey) -> Option<&mut Stream> {
        self.slots
            .get_mut(key.slot.index())
            .filter(|slot| slot.generation == key.generation)?
            .stream
            .as_deref_mut()
    }

    /// Returns the domain in which messages of this key were sent, if the stream still exists.
    #[inline]
    #[track_caller]
    pub(super) fn still_sending(&self, key: DomainKey) -> Option<&SendDomain> {
        self.still(key)?.content.sending(key.domain).expected("a domain that sends")
    }

    /// Returns the domain in which messages of this key were sent, if the stream still exists.
    #[inline]
    #[track_caller]
    pub(super) fn still_sending_mut(&mut self, key: DomainKey) -> Option<&mut SendDomain> {
        self.still_mut(key)?.content.sending_mut(key.domain).expected("a domain that sends")
    }

    /// Returns the domain in which messages of this key were received, if the stream still exists.
    #[inline]
    #[track_caller]
    pub(super) fn still_receiving_mut(&mut self, key: DomainKey) -> Option<&mut RecvDomain> {
        self.still_mut(key)?.content.receiving_mut(key.domain).expected("a domain that receives")
    }

    /// Returns the memory of the table and its streams, without what they carry, bytes.
    #[inline]
    pub(super) fn memory(&self) -> u64 {
        let table = of_queue(self.slots.capacity(), size_of::<Entry>());
        table + of_queue(self.by_id.len(), size_of::<Stream>()) + of_map(self.by_id.len(), size_of::<u32>())
    }

    /// Iterates over the streams, in the order of their slots.
    pub(super) fn open(&self) -> impl Iterator<Item = (StreamSlot, &Stream)> {
        self.slots().filter_map(|slot| Some((slot, self.if_taken(slot)?)))
    }

    /// Iterates over the streams, in the order of their slots.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().filter_map(|entry| entry.stream.as_deref_mut())
    }

    /// Iterates over all slots, taken or free.
    pub(super) fn slots(&self) -> impl Iterator<Item = StreamSlot> + use<> {
        (0..self.slots.len() as u32).map(StreamSlot)
    }
}
