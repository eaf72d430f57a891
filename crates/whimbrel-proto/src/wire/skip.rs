//! SKIP (14) and SKIP-ACK (15): messages that will not be sent (again), and what became of them (Mockets 3.5, 5.3).

use super::{Malformed, Reader, VARINT_MAX, Writer, varint_len};

/// The value in an unrequested SKIP-ACK: the message arrived after it had been skipped.
pub const LATE: u64 = 2;

/// The head of a list of number ranges, used by SKIP, SKIP-ACK and TAKEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangesHead {
    /// The stream's id.
    pub stream: u64,
    /// The order domain: DATA's bits UNSEQUENCED and RELIABLE.
    pub domain: u8,
    /// The number of ranges that follow.
    pub count: u64,
}

impl RangesHead {
    /// The most bytes that a head takes with its type; check for this much room before writing one.
    pub const MAX_LEN: usize = 1 + 8 + 1 + 2;

    /// Writes the type and head with the count left open. Returns the mark that [`RangesHead::close`] needs.
    pub fn open(out: &mut Writer<'_>, kind: u8, stream: u64, domain: u8) -> usize {
        out.u8(kind);
        out.varint(stream);
        out.u8(domain);
        let mark = out.len();
        out.bytes(&[0x40, 0]);
        mark
    }

    /// Fills in the count, which must be below 16,384.
    pub fn close(out: &mut Writer<'_>, mark: usize, count: usize) {
        out.patch_varint2(mark, count);
    }

    /// Reads a head after its type byte.
    pub fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        let stream = reader.varint()?;
        let domain = reader.u8()?;
        if domain & !0x0c != 0 {
            return Err(Malformed("ranges: no such domain"));
        }
        Ok(Self { stream, domain, count: reader.varint()? })
    }
}

/// A range of message numbers with, in SKIP and SKIP-ACK, a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The first number.
    pub first: u64,
    /// The length of the range, at least 1.
    pub count: u64,
    /// In SKIP the charge of each message. In SKIP-ACK 1 for delivered, 0 for skipped, 2 for late. TAKEN has none on
    /// the wire, and 0 here.
    pub value: u64,
}

impl NumberRange {
    /// Returns the length on the wire in bytes, after a range whose end (exclusive) is `end`.
    pub fn len(&self, end: u64, valued: bool) -> usize {
        let value = if valued { varint_len(self.value) } else { 0 };
        varint_len(self.first - end) + varint_len(self.count) + value
    }

    /// Writes the range after a range that ended at `end`. Returns its own end.
    pub fn write(&self, out: &mut Writer<'_>, end: u64, valued: bool) -> u64 {
        out.varint(self.first - end);
        out.varint(self.count);
        if valued {
            out.varint(self.value);
        }
        self.first + self.count
    }

    /// Reads a range after a range that ended at `end`.
    pub fn read(reader: &mut Reader, end: u64, valued: bool) -> Result<Self, Malformed> {
        let gap = reader.varint()?;
        let count = reader.varint()?;
        let value = if valued { reader.varint()? } else { 0 };
        let last =
            end.checked_add(gap).and_then(|first| first.checked_add(count)).filter(|end| *end <= VARINT_MAX);
        match last {
            Some(last) if count > 0 => Ok(Self { first: last - count, count, value }),
            _ => Err(Malformed("ranges: empty or beyond the largest number")),
        }
    }

    /// Returns the end of the range: one past the last number.
    pub const fn end(&self) -> u64 {
        self.first + self.count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::block;

    proptest! {
        #[test]
        fn ranges_round_trip(list in proptest::collection::vec((0u64..1 << 30, 1u64..1 << 20, 0u64..1 << 40), 1..50), valued: bool) {
            let mut buf = Vec::new();
            let mut out = Writer::new(&mut buf, 10_000);
            let mark = RangesHead::open(&mut out, block::SKIP, 6, 0x08);
            let (mut end, mut ranges) = (0, Vec::new());
            for (gap, count, value) in list {
                let range = NumberRange { first: end + gap, count, value: if valued { value } else { 0 } };
                let before = out.len();
                let length = range.len(end, valued);
                end = range.write(&mut out, end, valued);
                prop_assert_eq!(out.len() - before, length);
                ranges.push(range);
            }
            RangesHead::close(&mut out, mark, ranges.len());
            let mut reader = Reader::new(buf.into());
            prop_assert_eq!(reader.u8().unwrap(), block::SKIP);
            let head = RangesHead::read(&mut reader).unwrap();
            prop_assert_eq!(head, RangesHead { stream: 6, domain: 8, count: ranges.len() as u64 });
            let mut end = 0;
            for range in ranges {
                let read = NumberRange::read(&mut reader, end, valued).unwrap();
                prop_assert_eq!(read, range);
                end = read.end();
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>, end in 0..=VARINT_MAX) {
            let mut reader = Reader::new(bytes.into());
            if RangesHead::read(&mut reader).is_ok() && let Ok(range) = NumberRange::read(&mut reader, end, true) {
                prop_assert!(range.first >= end && range.end() <= VARINT_MAX);
            }
        }
    }
}
