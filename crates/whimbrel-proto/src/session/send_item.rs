//! A message on its way out, from the send call to its outcome.

use bytes::{Buf, Bytes};

use super::config::MESSAGE_CHARGE;
use super::message::Outcome;
use super::options::RouteClass;
use crate::wire::{Writer, varint_len};
use crate::{MessageId, Time};

pub(super) const NO_TAG: u32 = u32::MAX;

pub(super) const RELIABLE: u8 = 1;
pub(super) const TRACKED: u8 = 2;
pub(super) const CONFIRM: u8 = 4;
pub(super) const PPID: u8 = 8;
/// Cancelled, replaced or expired while it waited in a lane; its place remains.
pub(super) const DEAD: u8 = 16;
/// It went in parts.
pub(super) const PARTED: u8 = 32;

/// Sent when it could not have been sent again in time.
pub(super) const PRESSED: u8 = 64;

/// Where a message that was sent at least once stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendState {
    /// Sent or to be sent; of a message in parts the parts know more.
    Flying,
    /// All copies lost, to be sent again.
    Lost,
    /// Given up; the peer's answer to SKIP decides.
    Skipping(Outcome),
    /// Resolved.
    Done,
}

/// One message, or a *bundle*: small messages of one kind in a row, without tag, lifetime or anything else of their own, which are
/// one thing as long as they travel together.
#[derive(Clone, Debug)]
pub(super) struct SendItem {
    /// Of a bundle as it stands in a run: length, bytes, length, bytes.
    pub(super) payload: Bytes,
    pub(super) id: MessageId,
    /// Number of the first message, once it was sent.
    pub(super) first: u64,
    /// Messages.
    pub(super) count: u32,
    /// `Time::MAX`: never.
    pub(super) expires: Time,
    pub(super) tag: u32,
    pub(super) ppid: u32,
    /// Bytes of the messages; the payload may have been dropped.
    pub(super) length: u32,
    /// Cross-sequenced: how far below this number the latest reliable one is; 0: none that matters.
    pub(super) reliable_gap: u32,
    /// None: the stream's.
    pub(super) route: Option<RouteClass>,
    pub(super) priority: u8,
    pub(super) flags: u8,
    pub(super) state: SendState,
    /// Copies in flight.
    pub(super) copies: u8,
    /// Copies sent beyond the first, on purpose.
    pub(super) repeats: u8,
}

/// So many messages from the front of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) count: u32,
    /// What they take of a bundle's payload.
    bytes: usize,
    pub(super) length: u32,
}

/// The first message of a bundle: where it begins, where it ends.
#[inline]
fn first_of(run: &[u8]) -> (usize, usize) {
    match *run {
        [short, ..] if short < 0x40 => (1, 1 + usize::from(short)),
        [high, low, ..] => (2, 2 + (usize::from(high & 0x3f) << 8 | usize::from(low))),
        _ => (0, run.len()),
    }
}

impl SendItem {
    /// Messages gathered, all of which have these flags and this priority.
    pub(super) fn bundle(payload: Bytes, count: u32, length: u32, flags: u8, priority: u8) -> Self {
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

    /// A bundle of one is a message.
    fn strip(&mut self) {
        if self.count == 1 {
            self.payload.advance(first_of(&self.payload).0);
        }
    }

    #[inline]
    pub(super) fn is_bundle(&self) -> bool {
        self.count > 1
    }

    /// One more than the last message's number.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// The length of the first message.
    #[inline]
    pub(super) fn first_length(&self) -> usize {
        if !self.is_bundle() {
            return self.length as usize;
        }
        let (from, to) = first_of(&self.payload);
        to - from
    }

    /// The length of the second message, of a bundle.
    pub(super) fn second_length(&self) -> Option<usize> {
        let (from, to) =
            first_of(self.payload.get(first_of(&self.payload).1..).filter(|_| self.is_bundle())?);
        Some(to - from)
    }

    /// The lengths of a bundle's messages.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let mut rest = &self.payload[..];
        (0..self.count).map(move |_| {
            let (from, to) = first_of(rest);
            rest = rest.get(to..).unwrap_or_default();
            (to - from) as u32
        })
    }

    /// All of it.
    #[inline]
    pub(super) fn whole(&self) -> Share {
        Share { count: self.count, bytes: self.payload.len(), length: self.length }
    }

    /// The first message.
    #[inline]
    pub(super) fn first_share(&self) -> Share {
        if !self.is_bundle() {
            return self.whole();
        }
        let (from, to) = first_of(&self.payload);
        Share { count: 1, bytes: to, length: (to - from) as u32 }
    }

    /// As many messages as fit into `room` bytes of a run and are at most `most`; each must be admitted with the charge of those
    /// before it.
    #[inline]
    pub(super) fn share(&self, room: usize, most: u32, admits: impl Fn(u64) -> bool) -> Share {
        if self.is_bundle() && self.payload.len() <= room && self.count <= most && admits(self.charge()) {
            return self.whole();
        }
        let mut share = Share { count: 0, bytes: 0, length: 0 };
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

    /// Takes the share's messages out of a bundle, which keeps at least one.
    pub(super) fn split_off(&mut self, share: Share) -> Self {
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
    pub(super) fn write(&self, share: Share, out: &mut Writer<'_>) {
        if !self.is_bundle() {
            out.varint(u64::from(self.length));
        }
        out.bytes(&self.payload[..share.bytes]);
    }

    /// Bytes it takes in a run.
    #[inline]
    pub(super) fn run_len(&self) -> usize {
        if self.is_bundle() {
            self.payload.len()
        } else {
            varint_len(u64::from(self.length)) + self.length as usize
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn charge(&self) -> u64 {
        u64::from(self.length) + u64::from(self.count) * MESSAGE_CHARGE
    }

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, SendState::Flying | SendState::Lost)
    }

    /// What must be equal in a run.
    #[inline]
    pub(super) fn kind(&self) -> (u32, u32, u8, u8) {
        (self.tag, self.ppid, self.flags, self.priority)
    }

    /// May ride in one run behind `head`.
    #[inline]
    pub(super) fn runs_with(&self, head: &Self) -> bool {
        self.kind() == head.kind()
    }
}

impl Share {
    #[inline]
    fn charge(self) -> u64 {
        u64::from(self.length) + u64::from(self.count) * MESSAGE_CHARGE
    }
}
