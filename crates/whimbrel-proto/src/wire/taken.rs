//! TAKEN (24): the application confirmed these messages. The block is a list of ranges as in SKIP, without values.

pub use super::skip::{NumberRange, RangesHead};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Reader, Writer, block};

    #[test]
    fn taken_has_no_values() {
        let mut buf = Vec::new();
        let mut out = Writer::new(&mut buf, 100);
        let mark = RangesHead::open(&mut out, block::TAKEN, 0, 8);
        NumberRange { first: 3, count: 2, value: 0 }.write(&mut out, 0, false);
        RangesHead::close(&mut out, mark, 1);
        assert_eq!(buf, [24, 0, 8, 0x40, 1, 3, 2]);
        let mut reader = Reader::new(buf.into());
        reader.skip(1).unwrap();
        assert_eq!(RangesHead::read(&mut reader).unwrap().count, 1);
        assert_eq!(NumberRange::read(&mut reader, 0, false).unwrap().end(), 5);
    }
}
