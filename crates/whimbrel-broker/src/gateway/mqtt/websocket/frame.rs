//! Frames of WebSocket: RFC 6455, section 5.

use bytes::{BufMut, Bytes, BytesMut};

/// The longest content of a frame that is not data, bytes: section 5.5.
const LONGEST_CONTROL: u64 = 125;

/// Takes frames of a client apart.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The frame of data whose content is being read.
    open: Option<Open>,
    /// Whether a message has begun whose last frame has not.
    is_fragmented: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    left: u64,
    mask: [u8; 4],
    /// How much of the mask is used up.
    turned: usize,
}

/// Something that a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Bytes of a message.
    Data(BytesMut),
    /// A question whether we are there, which is repeated in the answer.
    Ping(Bytes),
    /// The client closes.
    Close,
}

/// A client's mistake, as the close code with which it is told (RFC 6455 section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation(pub(super) u16);

/// A frame that is against the standard.
const PROTOCOL_ERROR: Violation = Violation(1002);
/// A text: MQTT is in binary frames.
const NOT_BINARY: Violation = Violation(1003);

/// The head of a frame.
struct Head {
    is_last: bool,
    opcode: u8,
    length: u64,
    mask: [u8; 4],
    /// Its own length.
    bytes: usize,
}

impl Decoder {
    /// Takes what comes next from the front. `None`: more has to come first. Data comes in parts of at most `most` bytes.
    pub(super) fn next(&mut self, input: &mut BytesMut, most: usize) -> Result<Option<Event>, Violation> {
        loop {
            if let Some(open) = &mut self.open {
                if open.left == 0 {
                    self.open = None;
                    continue;
                }
                let length = usize::try_from(open.left).unwrap_or(usize::MAX).min(most).min(input.len());
                if length == 0 {
                    return Ok(None);
                }
                let mut data = input.split_to(length);
                open.unmask(&mut data);
                return Ok(Some(Event::Data(data)));
            }
            let Some(head) = Head::read(input)? else { return Ok(None) };
            let Head { is_last, opcode, length, mask, bytes } = head;
            if opcode < 8 {
                match (opcode, self.is_fragmented) {
                    (0, true) | (2, false) => {}
                    (1, false) => return Err(NOT_BINARY),
                    _ => return Err(PROTOCOL_ERROR),
                }
                self.is_fragmented = !is_last;
                drop(input.split_to(bytes));
                self.open = Some(Open { left: length, mask, turned: 0 });
                continue;
            }
            if !is_last || length > LONGEST_CONTROL {
                return Err(PROTOCOL_ERROR);
            }
            let whole = bytes + length as usize;
            if input.len() < whole {
                return Ok(None);
            }
            let mut content = input.split_to(whole).split_off(bytes);
            Open { left: length, mask, turned: 0 }.unmask(&mut content);
            match opcode {
                8 => return Ok(Some(Event::Close)),
                9 => return Ok(Some(Event::Ping(content.freeze()))),
                10 => {}
                _ => return Err(PROTOCOL_ERROR),
            }
        }
    }
}

impl Open {
    fn unmask(&mut self, bytes: &mut [u8]) {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte ^= self.mask[(self.turned + at) % 4];
        }
        self.turned = (self.turned + bytes.len()) % 4;
        self.left -= bytes.len() as u64;
    }
}

impl Head {
    fn read(input: &[u8]) -> Result<Option<Self>, Violation> {
        let [first, second, rest @ ..] = input else { return Ok(None) };
        // Reserved bits need extensions, and clients mask.
        if first & 0x70 != 0 || second & 0x80 == 0 {
            return Err(PROTOCOL_ERROR);
        }
        let read = |length: usize| {
            rest.get(..length)
                .map(|bytes| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        let (extra, length) = match second & 0x7f {
            126 => (2, read(2)),
            127 => (8, read(8)),
            length => (0, Some(u64::from(length))),
        };
        let (Some(length), Some(mask)) = (length, rest[extra.min(rest.len())..].first_chunk::<4>()) else {
            return Ok(None);
        };
        if length >> 63 != 0 {
            return Err(PROTOCOL_ERROR);
        }
        let bytes = 2 + extra + 4;
        Ok(Some(Self { is_last: first & 0x80 != 0, opcode: first & 0xf, length, mask: *mask, bytes }))
    }
}

/// Writes a whole message of binary data.
pub(super) fn put_data(out: &mut BytesMut, data: &[u8]) {
    out.reserve(data.len() + 10);
    out.put_u8(0x82);
    match data.len() {
        0..126 => out.put_u8(data.len() as u8),
        126..0x1_0000 => {
            out.put_u8(126);
            out.put_u16(data.len() as u16);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(data.len() as u64);
        }
    }
    out.put_slice(data);
}

/// Answers a ping.
pub(super) fn put_pong(out: &mut BytesMut, content: &[u8]) {
    put_control(out, 0x8a, content);
}

/// Closes with this code.
pub(super) fn put_close(out: &mut BytesMut, code: u16) {
    put_control(out, 0x88, &code.to_be_bytes());
}

fn put_control(out: &mut BytesMut, first: u8, content: &[u8]) {
    // Contents are those of frames that were read, or codes: at most 125 bytes.
    out.put_u8(first);
    out.put_u8(content.len() as u8);
    out.put_slice(content);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame as clients send it.
    fn frame(first: u8, content: &[u8]) -> Vec<u8> {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let mut bytes = vec![first];
        match content.len() {
            length @ 0..126 => bytes.push(0x80 | length as u8),
            length => {
                bytes.push(0x80 | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(content.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        bytes
    }

    /// All that comes if the bytes arrive in parts of this length.
    fn read(bytes: &[u8], part: usize) -> Result<(Vec<u8>, Vec<Event>), Violation> {
        let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
        let (mut data, mut others) = (Vec::new(), Vec::new());
        for part in bytes.chunks(part) {
            input.extend_from_slice(part);
            while let Some(event) = decoder.next(&mut input, 7)? {
                match event {
                    Event::Data(bytes) => data.extend(bytes),
                    other => others.push(other),
                }
            }
        }
        Ok((data, others))
    }

    #[test]
    fn a_message_in_several_frames_is_one_stream_of_bytes() {
        let bytes = [
            frame(0x02, b"one "),
            frame(0x89, b"there?"),
            frame(0x00, b""),
            frame(0x80, &[b'x'; 300]),
            frame(0x8a, b"ignored"),
            frame(0x82, b" end"),
            frame(0x88, &1000_u16.to_be_bytes()),
        ]
        .concat();
        for part in [1, 3, bytes.len()] {
            let (data, others) = read(&bytes, part).unwrap();
            assert_eq!(data, [&b"one "[..], &[b'x'; 300], b" end"].concat());
            assert_eq!(others, [Event::Ping(Bytes::from_static(b"there?")), Event::Close]);
        }
    }

    #[test]
    fn what_is_against_the_standard_has_its_code() {
        let unmasked = vec![0x82, 1, b'a'];
        let endless = [&[0x82, 0xff][..], &[0xff; 8], &[0; 4]].concat();
        for (bytes, code) in [
            (frame(0x81, b"text"), 1003),
            (unmasked, 1002),
            (frame(0xc2, b""), 1002),
            (frame(0x80, b"no beginning"), 1002),
            ([frame(0x02, b"a"), frame(0x82, b"b")].concat(), 1002),
            (frame(0x09, b"in parts"), 1002),
            (frame(0x89, &[0; 126]), 1002),
            (frame(0x8b, b""), 1002),
            (endless, 1002),
        ] {
            assert_eq!(read(&bytes, bytes.len()), Err(Violation(code)), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200), part in 1_usize..50) {
            let whole = read(&bytes, bytes.len().max(1));
            let parts = read(&bytes, part);
            prop_assert_eq!(whole, parts);
        }
    }
}
