//! A message on its way out, from the send call to its outcome.

use bytes::{Buf, Bytes};

use crate::session::config::MESSAGE_CHARGE;
use crate::session::message::Outcome;
use crate::session::numbers::TagSlot;
use crate::session::options::RouteClass;
use crate::wire::{Writer, varint_len};
use crate::{MessageId, Time};

pub(in crate::session) const NO_TAG: TagSlot = TagSlot::NONE;

pub(in crate::session) const RELIABLE: u8 = 1;
pub(in crate::session) const TRACKED: u8 = 2;
pub(in crate::session) const CONFIRM: u8 = 4;
pub(in crate::session) const PPID: u8 = 8;
/// The message was cancelled, replaced or expired while it waited in a lane. Its place remains.
pub(in crate::session) const DEAD: u8 = 16;
/// The message was sent in parts.
pub(in crate::session) const PARTED: u8 = 32;

/// A retransmission of the message would come too late for its lifetime, so it is sent in copies.
pub(in crate::session) const PRESSED: u8 = 64;

/// The state of a message that was sent at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum SendState {
    /// Sent, or to be sent for the first time. For a message in parts, its fragments hold the details.
    Flying,
    /// All copies were lost, and it waits to be retransmitted.
    Lost,
    /// Given up. The outcome depends on the peer's answer to SKIP.
    Skipping(Outcome),
    /// Resolved.
    Done,
}

/// One message, or a *bundle*: a row of small messages of one kind, without tag, lifetime or other properties of their
/// own. A bundle is handled as one item as long as its messages travel together.
#[derive(Clone, Debug)]
pub(in crate::session) struct SendItem {
    /// The content. In a bundle it is encoded as in a run: length, bytes, length, bytes.
    pub(in crate::session) payload: Bytes,
    pub(in crate::session) id: MessageId,
    /// Number of the first message, assigned when it is first sent.
    pub(in crate::session) first: u64,
    /// Number of messages.
    pub(in crate::session) count: u32,
    /// When the lifetime ends. `Time::MAX`: never.
    pub(in crate::session) expires: Time,
    pub(in crate::session) tag: TagSlot,
    pub(in crate::session) ppid: u32,
    /// Bytes of the messages. They count even after the payload was dropped.
    pub(in crate::session) length: u32,
    /// In a cross-sequenced domain, how far below this number the latest reliable one is. 0: there is none that
    /// matters.
    pub(in crate::session) reliable_gap: u32,
    /// Route class. None: the stream's.
    pub(in crate::session) route: Option<RouteClass>,
    pub(in crate::session) priority: u8,
    pub(in crate::session) flags: u8,
    pub(in crate::session) state: SendState,
    /// Number of copies in flight.
    pub(in crate::session) copies: u8,
    /// Number of copies sent on purpose beyond the first.
    pub(in crate::session) repeats: u8,
}

/// A number of messages from the front of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Portion {
    pub(in crate::session) count: u32,
    /// Bytes they take of a bundle's payload.
    bytes: usize,
    pub(in crate::session) length: u32,
}

/// Returns where the first message of a bundle begins and ends.
#[inline]
fn first_of(run: &[u8]) -> (usize, usize) {
    match *run {
        [short, ..] if short < 0x40 => (1, 1 + usize::from(short)),
        [high, low, ..] => (2, 2 + (usize::from(high & 0x3f) << 8 | usize::from(low))),
        _ => (0, run.len()),
    }
}

impl SendItem {
    /// Creates a bundle of gathered messages, all of which have these flags and this priority.
    pub(in crate::session) fn bundle(
        payload: Bytes,
        count: u32,
        length: u32,
        flags: u8,
        priority: u8,
    ) -> Self {
        let mut item = Self {
            payload,
            id: MessageId(0),
            first: 0,
            count,
            expires: Time::MAX,
            tag: NO_TAG,
            ppid: 0,
            length,
            reliable_gap: 0,
            route: None,
            priority,
            flags,
            state: SendState::Flying,
            copies: 0,
            repeats: 0,
        };
        item.strip();
        item
    }

    /// Turns a bundle of one message into a plain message, by removing its length field.
    fn strip(&mut self) {
        if self.count == 1 {
            self.payload.advance(first_of(&self.payload).0);
        }
    }

    /// Returns whether the messages are nothing but payload, as those of a bundle are.
    #[inline]
    pub(in crate::session) fn is_plain(&self) -> bool {
        !self.is_listed() && self.flags & !RELIABLE == 0
    }

    /// Returns whether the session keeps a list of where the message is, because of its tag or its lifetime.
    #[inline]
    pub(in crate::session) fn is_listed(&self) -> bool {
        self.tag != NO_TAG || self.expires != Time::MAX
    }

    #[inline]
    pub(in crate::session) fn is_bundle(&self) -> bool {
        self.count > 1
    }

    /// Returns one more than the last message's number.
    #[inline]
    pub(in crate::session) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Returns the length of the first message.
    #[inline]
    pub(in crate::session) fn first_length(&self) -> usize {
        if !self.is_bundle() {
            return self.length as usize;
        }
        let (from, to) = first_of(&self.payload);
        to - from
    }

    /// Returns the length of a bundle's second message.
    pub(in crate::session) fn second_length(&self) -> Option<usize> {
        let (from, to) =
            first_of(self.payload.get(first_of(&self.payload).1..).filter(|_| self.is_bundle())?);
        Some(to - from)
    }

    /// Returns the lengths of a bundle's messages.
    pub(in crate::session) fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let mut rest = &self.payload[..];
        (0..self.count).map(move |_| {
            let (from, to) = first_of(rest);
            rest = rest.get(to..).unwrap_or_default();
            (to - from) as u32
        })
    }

    /// Returns a share with all messages.
    #[inline]
    pub(in crate::session) fn whole(&self) -> Portion {
        Portion { count: self.count, bytes: self.payload.len(), length: self.length }
    }

    /// Returns a share with the first message only.
    #[inline]
    pub(in crate::session) fn first_share(&self) -> Portion {
        if !self.is_bundle() {
            return self.whole();
        }
        let (from, to) = first_of(&self.payload);
        Portion { count: 1, bytes: to, length: (to - from) as u32 }
    }

    /// Returns a share with as many messages as fit into `room` bytes of a run, at most `most`. `admits` must accept
    /// each message, given the charge of those before it.
    #[inline]
    pub(in crate::session) fn share(&self, room: usize, most: u32, admits: impl Fn(u64) -> bool) -> Portion {
        if self.is_bundle() && self.payload.len() <= room && self.count <= most && admits(self.charge()) {
            return self.whole();
        }
        let mut share = Portion { count: 0, bytes: 0, length: 0 };
        if !self.is_bundle() {
            let fits = self.run_len() <= room && most > 0 && admits(0);
            return if fits { self.first_share() } else { share };
        }
        while share.count < most.min(self.count) {
            let (from, to) = first_of(&self.payload[share.bytes..]);
            if share.bytes + to > room || !admits(share.charge()) {
                break;
            }
            share.count += 1;
            share.bytes += to;
            share.length += (to - from) as u32;
        }
        share
    }

    /// Removes the share's messages from a bundle, which keeps at least one.
    pub(in crate::session) fn split_off(&mut self, share: Portion) -> Self {
        let front = Self {
            payload: self.payload.split_to(share.bytes),
            count: share.count,
            length: share.length,
            ..*self
        };
        let gap = match self.reliable_gap {
            _ if self.has(RELIABLE) => 1,
            0 => 0,
            gap => gap.saturating_add(share.count),
        };
        self.first += u64::from(share.count);
        self.count -= share.count;
        self.length -= share.length;
        self.reliable_gap = gap;
        self.strip();
        let mut front = front;
        front.strip();
        front
    }

    /// Appends a share to a run.
    #[inline]
    pub(in crate::session) fn write(&self, share: Portion, out: &mut Writer<'_>) {
        if !self.is_bundle() {
            out.varint(u64::from(self.length));
        }
        out.bytes(&self.payload[..share.bytes]);
    }

    /// Returns the bytes it takes in a run.
    #[inline]
    pub(in crate::session) fn run_len(&self) -> usize {
        if self.is_bundle() {
            self.payload.len()
        } else {
            varint_len(u64::from(self.length)) + self.length as usize
        }
    }

    #[inline]
    pub(in crate::session) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(in crate::session) fn charge(&self) -> u64 {
        u64::from(self.length) + u64::from(self.count) * MESSAGE_CHARGE
    }

    #[inline]
    pub(in crate::session) fn is_live(&self) -> bool {
        matches!(self.state, SendState::Flying | SendState::Lost)
    }

    /// Returns the properties that all messages of a run share.
    #[inline]
    pub(in crate::session) fn kind(&self) -> (TagSlot, u32, u8, u8) {
        (self.tag, self.ppid, self.flags, self.priority)
    }

    /// Returns whether the item may be in one run behind `head`.
    #[inline]
    pub(in crate::session) fn runs_with(&self, head: &Self) -> bool {
        self.kind() == head.kind()
    }
}

impl Portion {
    #[inline]
    fn charge(self) -> u64 {
        u64::from(self.length) + u64::from(self.count) * MESSAGE_CHARGE
    }
}
