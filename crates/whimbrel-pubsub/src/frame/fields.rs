//! Fields that several frames have.

use std::time::Duration;

use crate::codec::{Malformed, Parser, put_bytes, put_varint};
use crate::coverage::{Count, Cover, Range};
use crate::message::LAST_SEQUENCE;
use crate::message::Origin;

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(super) fn text(parser: &mut Parser<'_>, most: usize) -> Result<String, Malformed> {
    let bytes = parser.bytes(most)?;
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed)
}

pub(super) fn put_optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(text.is_some().into());
    text.into_iter().for_each(|text| put_text(out, text));
}

pub(super) fn optional_text(parser: &mut Parser<'_>, most: usize) -> Result<Option<String>, Malformed> {
    if flag(parser)? { text(parser, most).map(Some) } else { Ok(None) }
}

pub(super) fn flag(parser: &mut Parser<'_>) -> Result<bool, Malformed> {
    match parser.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

pub(super) fn put_millis(out: &mut Vec<u8>, duration: Duration) {
    put_varint(out, u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
}

pub(super) fn millis(parser: &mut Parser<'_>) -> Result<Duration, Malformed> {
    parser.varint().map(Duration::from_millis)
}

pub(super) fn u32_of(parser: &mut Parser<'_>) -> Result<u32, Malformed> {
    u32::try_from(parser.varint()?).map_err(|_| Malformed)
}

/// Appends a difference, small in either direction.
pub(super) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from) as i64;
    put_varint(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

pub(super) fn difference(parser: &mut Parser<'_>, from: u64) -> Result<u64, Malformed> {
    let number = parser.varint()?;
    let difference = ((number >> 1) as i64) ^ -((number & 1) as i64);
    Ok(from.wrapping_add(difference as u64))
}

pub(super) fn put_cover(out: &mut Vec<u8>, cover: &Cover) {
    cover.origin.encode(out);
    put_varint(out, cover.range.first);
    put_varint(out, cover.range.last - cover.range.first);
}

pub(super) fn cover(parser: &mut Parser<'_>) -> Result<Cover, Malformed> {
    let origin = Origin::parse(parser)?;
    let first = parser.varint()?;
    let last = first.checked_add(parser.varint()?).ok_or(Malformed)?;
    Ok(Cover { origin, range: range(first, last)? })
}

/// A range of sequences.
pub(super) fn range(first: u64, last: u64) -> Result<Range, Malformed> {
    if first == 0 || first > last || last > LAST_SEQUENCE {
        return Err(Malformed);
    }
    Ok(Range { first, last })
}

pub(super) fn put_count(out: &mut Vec<u8>, count: Count) {
    put_varint(out, count.number);
    out.push(count.exact.into());
}

pub(super) fn count(parser: &mut Parser<'_>) -> Result<Count, Malformed> {
    Ok(Count { number: parser.varint()?, exact: flag(parser)? })
}
