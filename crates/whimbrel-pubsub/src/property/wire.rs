//! One property on the wire:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | the length of the name |
//! | 1 to 128 | the name |
//! | 1 | 0 false, 1 true; 16 to 24: integer of 0 to 8 bytes; 32 float; 48 text; 64 bytes |
//! | 0 to 8 | an integer: two's complement, the fewest bytes that hold it, 0 has none |
//! | 8 | a float: IEEE 754 |
//! | 1 or 2 | a text's or bytes' length: one byte below 128, else two of which the first has its highest bit set |
//! | so many | the text in UTF-8, or the bytes |
//!
//! Numbers are in network byte order. There is one way to write each value.

use super::value::Value;

const FALSE: u8 = 0;
const TRUE: u8 = 1;
const INTEGER: u8 = 16;
const INTEGER_MAX: u8 = INTEGER + 8;
const FLOAT: u8 = 32;
const TEXT: u8 = 48;
const BYTES: u8 = 64;

/// Lengths from here on take two bytes.
const SHORT: usize = 128;
/// Lengths from here on cannot be written.
const LONG: usize = 1 << 15;

/// Writes a property whose name and length have been checked.
pub(super) fn write(out: &mut Vec<u8>, name: &str, value: Value<'_>) {
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name.as_bytes());
    match value {
        Value::Boolean(value) => out.push(if value { TRUE } else { FALSE }),
        Value::Integer(value) => {
            let len = integer_len(value);
            out.push(INTEGER + len);
            out.extend_from_slice(&value.to_be_bytes()[8 - usize::from(len)..]);
        }
        Value::Float(value) => {
            out.push(FLOAT);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Text(text) => write_long(out, TEXT, text.as_bytes()),
        Value::Bytes(bytes) => write_long(out, BYTES, bytes),
    }
}

fn write_long(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    let [high, low] = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    if bytes.len() < SHORT {
        out.push(low);
    } else {
        out.extend_from_slice(&[high | 0x80, low]);
    }
    out.extend_from_slice(bytes);
}

/// The number of bytes that a property takes. `None`: it cannot be written.
pub(super) fn written_len(name: &str, value: Value<'_>) -> Option<usize> {
    let content = match value {
        Value::Boolean(_) => 0,
        Value::Integer(value) => integer_len(value).into(),
        Value::Float(_) => 8,
        Value::Text(text) => long_len(text.len())?,
        Value::Bytes(bytes) => long_len(bytes.len())?,
    };
    Some(2 + name.len() + content)
}

fn long_len(len: usize) -> Option<usize> {
    (len < LONG).then_some(len + if len < SHORT { 1 } else { 2 })
}

fn integer_len(value: i64) -> u8 {
    if value == 0 {
        return 0;
    }
    // One bit is the sign.
    let spare = (if value < 0 { !value } else { value }).leading_zeros() - 1;
    8 - u8::try_from(spare / 8).unwrap_or(0)
}

/// Takes a property from the front of `rest`: its name, and its value, which is not looked at. `None`: it is not one.
#[inline]
pub(super) fn read<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Raw<'a>)> {
    let len = take_byte(rest)?;
    let name = take(rest, len.into())?;
    let tag = take_byte(rest)?;
    let len = match tag {
        FALSE | TRUE => 0,
        INTEGER..=INTEGER_MAX => usize::from(tag - INTEGER),
        FLOAT => 8,
        TEXT | BYTES => read_len(rest)?,
        _ => return None,
    };
    Some((name, Raw { tag, content: take(rest, len)? }))
}

/// A value as it is written.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    tag: u8,
    content: &'a [u8],
}

impl<'a> Raw<'a> {
    /// The value. `None`: it is not written as it has to be.
    #[inline]
    pub(super) fn value(self) -> Option<Value<'a>> {
        match self.tag {
            FALSE => Some(Value::Boolean(false)),
            TRUE => Some(Value::Boolean(true)),
            FLOAT => self.content.try_into().ok().map(|bytes| Value::Float(f64::from_be_bytes(bytes))),
            TEXT => std::str::from_utf8(self.content).ok().map(Value::Text),
            BYTES => Some(Value::Bytes(self.content)),
            _ => read_integer(self.content).map(Value::Integer),
        }
    }
}

#[inline]
fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (front, back) = rest.split_at_checked(len)?;
    *rest = back;
    Some(front)
}

#[inline]
fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, back) = rest.split_first()?;
    *rest = back;
    Some(*first)
}

fn read_integer(bytes: &[u8]) -> Option<i64> {
    let Some(first) = bytes.first() else { return Some(0) };
    let sign = if *first & 0x80 == 0 { 0 } else { u8::MAX };
    let mut whole = [sign; 8];
    whole[8_usize.checked_sub(bytes.len())?..].copy_from_slice(bytes);
    let value = i64::from_be_bytes(whole);
    (usize::from(integer_len(value)) == bytes.len()).then_some(value)
}

fn read_len(rest: &mut &[u8]) -> Option<usize> {
    let first = usize::from(take_byte(rest)?);
    if first < SHORT {
        return Some(first);
    }
    let len = ((first & 0x7f) << 8) | usize::from(take_byte(rest)?);
    (len >= SHORT).then_some(len)
}
