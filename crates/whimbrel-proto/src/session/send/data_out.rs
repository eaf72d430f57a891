//! Writing DATA blocks.

use super::accounting::Accounting;
use super::bytes_out::BytesOut;
use super::send_item::{CONFIRM, NO_TAG, PPID, RELIABLE, SendItem};
use super::sending::SendDomain;
use crate::wire::data::{self, DataHead, Extras, Length};
use crate::wire::{Writer, varint_len};

/// No part of a message shorter than this is begun in the rest of a packet.
pub(in crate::session) const SHORTEST_PART: usize = 64;
/// Longest payload of a run: its length field has two bytes.
pub(in crate::session) const LONGEST_RUN: usize = 0x3fff;

/// Whether writing may go on in the same packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The next block may follow.
    Go,
    /// Nothing more goes into this packet.
    Full,
}

/// Returns the head of a block with `item`'s bytes from `offset` on. The writer decides END and the declared length.
#[inline]
pub(in crate::session) fn head_of(
    domain: &SendDomain,
    accounting: &Accounting,
    stream: u64,
    number: u64,
    item: &SendItem,
    offset: u64,
) -> DataHead {
    let begins = offset == 0;
    let reliable = if item.has(RELIABLE) { data::RELIABLE } else { 0 };
    let flags = (domain.bits & data::UNSEQUENCED) | reliable | if begins { data::BEGIN } else { 0 };
    let mut extras = Extras::NONE;
    if begins {
        if item.tag != NO_TAG {
            extras.tag = accounting.held_tag(item.tag).map(|tag| tag.tag);
        }
        extras.priority = item.priority;
        extras.ppid = item.has(PPID).then_some(item.ppid);
        extras.confirm = item.has(CONFIRM);
    }
    if domain.cross {
        extras.latest_reliable = Some(domain.latest_reliable(number));
    }
    DataHead {
        flags,
        stream,
        number,
        offset,
        extras,
        message_length: begins.then_some(u64::from(item.length)),
    }
}

/// Writes as much of the first `want` bytes of `rest` as fits. Returns the bytes taken, 0 if there is too little room
/// to begin.
pub(in crate::session) fn write_part(
    head: DataHead,
    rest: &[u8],
    want: usize,
    length: u32,
    out: &mut Writer<'_>,
) -> (u16, Flow) {
    let left = out.remaining();
    let head_len = head.len();
    if left < head_len + want.clamp(1, SHORTEST_PART) {
        return (0, Flow::Full);
    }
    let take = want.min(left - head_len).min(usize::from(u16::MAX));
    let to_end = head_len + take + varint_len(take as u64) >= left;
    let ends = head.offset + take as u64 == u64::from(length);
    let flags = if ends { head.flags | data::END } else { head.flags };
    let message_length = head.message_length.filter(|_| !ends);
    DataHead { flags, message_length, ..head }
        .write(out, if to_end { Length::ToEnd } else { Length::Bytes(take) });
    out.bytes(&rest[..take]);
    (take as u16, if to_end { Flow::Full } else { Flow::Go })
}

/// Returns the head of a block with a byte stream's bytes from `offset` on. The writer decides END.
pub(in crate::session) fn bytes_head(half: &BytesOut, stream: u64, offset: u64) -> DataHead {
    let flags = data::RELIABLE | if offset == 0 { data::BEGIN } else { 0 };
    let extras = Extras { bytes: true, opening: half.has_opening(), ..Extras::NONE };
    DataHead { flags, stream, number: 0, offset, extras, message_length: None }
}

/// Writes up to `want` bytes of a byte stream from `offset` on, and its end if it is reached.
pub(in crate::session) fn write_bytes(
    half: &BytesOut,
    stream: u64,
    offset: u64,
    want: u64,
    out: &mut Writer<'_>,
) -> Option<(u16, Flow)> {
    let head = bytes_head(half, stream, offset);
    let (left, head_len) = (out.remaining(), head.len());
    let shortest = (want as usize).min(SHORTEST_PART);
    if left < head_len + shortest + 1 {
        return None;
    }
    let take = want.min((left - head_len) as u64).min(u64::from(u16::MAX)) as usize;
    let to_end = take > 0 && head_len + take + varint_len(take as u64) >= left;
    let end = if half.ends_at(offset + take as u64) { data::END } else { 0 };
    DataHead { flags: head.flags | end, ..head }
        .write(out, if to_end { Length::ToEnd } else { Length::Bytes(take) });
    half.copy(offset, take, out);
    Some((take as u16, if to_end { Flow::Full } else { Flow::Go }))
}
