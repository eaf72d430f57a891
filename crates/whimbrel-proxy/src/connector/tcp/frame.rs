//! The frames between two ends of a link over TCP: see docs/proxy-protocol.md.

use bytes::{Buf, Bytes, BytesMut};

/// The longest payload of a frame, in bytes: a message with a datagram of UDP and its announcement.
pub(super) const LONGEST: usize = 68 * 1024;
/// The largest number that a frame can hold.
pub(super) const MOST: u64 = (1 << 62) - 1;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Opens a stream with these bytes in front.
    Open(u64, Bytes),
    /// Bytes of a stream.
    Data(u64, Bytes),
    /// The sender's direction ends here.
    Finish(u64),
    /// The sender's direction ends early, with this code.
    Reset(u64, u64),
    /// The sender reads no more, for this reason.
    Stop(u64, u64),
    /// The receiver may send so many further bytes.
    Credit(u64, u64),
    /// A message that belongs to no stream.
    Message(Bytes),
    /// Asks for a [`Frame::Pong`].
    Ping,
    Pong,
    /// The link ends, for this reason.
    Close(Bytes),
}

/// The peer broke the protocol of a link, in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the protocol of the tcp connector: {0}")]
pub(super) struct Violation(pub(super) &'static str);

impl Frame {
    /// Returns the bytes in front of the payload, and the payload.
    pub(super) fn parts(self) -> (Head, Bytes) {
        let mut head = Head::default();
        let nothing = Bytes::new();
        let payload = match self {
            Self::Open(stream, bytes) => head.with(1, &[stream], bytes, true),
            Self::Data(stream, bytes) => head.with(2, &[stream], bytes, true),
            Self::Finish(stream) => head.with(3, &[stream], nothing, false),
            Self::Reset(stream, code) => head.with(4, &[stream, code], nothing, false),
            Self::Stop(stream, code) => head.with(5, &[stream, code], nothing, false),
            Self::Credit(stream, bytes) => head.with(6, &[stream, bytes], nothing, false),
            Self::Message(bytes) => head.with(7, &[], bytes, true),
            Self::Ping => head.with(8, &[], nothing, false),
            Self::Pong => head.with(9, &[], nothing, false),
            Self::Close(why) => head.with(10, &[], why, true),
        };
        (head, payload)
    }
}

/// The bytes in front of a payload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    bytes: [u8; 17],
    length: usize,
}

impl Head {
    fn with(&mut self, kind: u8, numbers: &[u64], payload: Bytes, has_payload: bool) -> Bytes {
        self.bytes[0] = kind;
        self.length = 1;
        numbers.iter().for_each(|number| self.number(*number));
        if has_payload {
            debug_assert!(payload.len() <= LONGEST, "no payload is longer");
            self.number(payload.len() as u64);
        }
        payload
    }

    /// Appends a number as QUIC writes it (RFC 9000 section 16). Of a larger one, only the lower 62 bits are sent.
    fn number(&mut self, number: u64) {
        let number = number & MOST;
        let (length, mark) = match number {
            0..=0x3f => (1, 0),
            0x40..=0x3fff => (2, 1),
            0x4000..=0x3fff_ffff => (4, 2),
            _ => (8, 3_u64),
        };
        let all = (number | mark << (8 * length - 2)).to_be_bytes();
        self.bytes[self.length..self.length + length].copy_from_slice(&all[8 - length..]);
        self.length += length;
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Reads frames from bytes as they come.
#[derive(Debug, Default)]
pub(super) struct Frames(BytesMut);

impl Frames {
    /// Where the next bytes go. Frames that are there must have been taken, so that it stays small.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.0
    }

    /// Takes the next frame. `None`: it is not whole yet.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Violation> {
        let mut rest = &self.0[..];
        let Some((frame, payload)) = read(&mut rest)? else { return Ok(None) };
        let head = self.0.len() - rest.len();
        if rest.len() < payload {
            return Ok(None);
        }
        self.0.advance(head);
        // A piece of the buffer would keep all of it.
        let bytes = Bytes::copy_from_slice(&self.0[..payload]);
        self.0.advance(payload);
        Ok(Some(match frame {
            Frame::Open(stream, _) => Frame::Open(stream, bytes),
            Frame::Data(stream, _) => Frame::Data(stream, bytes),
            Frame::Message(_) => Frame::Message(bytes),
            Frame::Close(_) => Frame::Close(bytes),
            other => other,
        }))
    }
}

/// Reads a frame without its payload, and the payload's length.
fn read(rest: &mut &[u8]) -> Result<Option<(Frame, usize)>, Violation> {
    let Some(kind) = rest.split_off_first() else { return Ok(None) };
    let mut numbers = [0; 2];
    let (count, has_payload) = match kind {
        1 | 2 => (1, true),
        3 => (1, false),
        4..=6 => (2, false),
        7 | 10 => (0, true),
        8 | 9 => (0, false),
        _ => return Err(Violation("a frame of an unknown kind")),
    };
    for number in &mut numbers[..count] {
        let Some(read) = number_of(rest) else { return Ok(None) };
        *number = read;
    }
    let length = match has_payload {
        true => number_of(rest),
        false => Some(0),
    };
    let Some(length) = length else { return Ok(None) };
    let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or(Violation("a frame is too long"))?;
    let [stream, second] = numbers;
    let nothing = Bytes::new();
    let frame = match kind {
        1 => Frame::Open(stream, nothing),
        2 => Frame::Data(stream, nothing),
        3 => Frame::Finish(stream),
        4 => Frame::Reset(stream, second),
        5 => Frame::Stop(stream, second),
        6 => Frame::Credit(stream, second),
        7 => Frame::Message(nothing),
        8 => Frame::Ping,
        9 => Frame::Pong,
        _ => Frame::Close(nothing),
    };
    Ok(Some((frame, length)))
}

fn number_of(bytes: &mut &[u8]) -> Option<u64> {
    let length = 1_usize << (bytes.first()? >> 6);
    let read = bytes.split_off(..length)?;
    let number = read.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    Some(number & (u64::MAX >> (64 - (8 * length - 2))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(frame: &Frame) -> Vec<u8> {
        let (head, payload) = frame.clone().parts();
        [head.as_slice(), &payload].concat()
    }

    fn all() -> Vec<Frame> {
        let text = Bytes::from_static(b"text");
        vec![
            Frame::Open(0, text.clone()),
            Frame::Data(63, text.clone()),
            Frame::Data(64, Bytes::new()),
            Frame::Finish(16_383),
            Frame::Reset(16_384, 1),
            Frame::Stop(1 << 30, MOST),
            Frame::Credit((1 << 30) - 1, 65_536),
            Frame::Message(Bytes::from(vec![7; LONGEST])),
            Frame::Ping,
            Frame::Pong,
            Frame::Close(text),
        ]
    }

    #[test]
    fn frames_come_back_in_whatever_pieces_they_come() {
        let whole: Vec<u8> = all().iter().flat_map(bytes).collect();
        for size in [1, 7, whole.len()] {
            let (mut frames, mut read) = (Frames::default(), Vec::new());
            for piece in whole.chunks(size) {
                frames.buffer().extend_from_slice(piece);
                while let Some(frame) = frames.next().unwrap() {
                    read.push(frame);
                }
            }
            assert_eq!(read, all(), "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_waited_for() {
        let mut frames = Frames::default();
        frames.buffer().extend_from_slice(&[11]);
        assert!(frames.next().is_err());
        let mut frames = Frames::default();
        let mut head = Head::default();
        head.bytes[0] = 7;
        head.length = 1;
        head.number(LONGEST as u64 + 1);
        frames.buffer().extend_from_slice(head.as_slice());
        assert_eq!(frames.next(), Err(Violation("a frame is too long")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut frames = Frames::default();
            frames.buffer().extend_from_slice(&bytes);
            while let Ok(Some(_)) = frames.next() {}
        }

        #[test]
        fn numbers_come_back(number in prop_oneof![0..=MOST, 0..100_000_u64]) {
            let mut head = Head::default();
            head.number(number);
            prop_assert_eq!(number_of(&mut head.as_slice()), Some(number));
        }
    }
}
