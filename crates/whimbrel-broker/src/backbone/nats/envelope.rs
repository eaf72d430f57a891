//! The content of a message of NATS: a frame of a broker, or a part of a long frame.
//!
//! ```text
//! version (2 bytes)  run of the sender (16 bytes)  kind (1 byte)
//! whole  0  frame
//! part   1  number of the frame  where the part begins  length of the frame  bytes of the frame
//! ```

use bytes::Bytes;
use whimbrel_pubsub::codec::{Malformed, Parser, put_varint};
use whimbrel_pubsub::message::{LONGEST_MESSAGE, Origin};

use super::super::frame::VERSION;

/// The longest frame: one message with what is around it.
pub(super) const LONGEST_FRAME: usize = LONGEST_MESSAGE + (64 << 10);
/// The longest message of NATS, whatever the server takes: what waits for the connection is counted in messages.
const LONGEST_PART: usize = 64 << 10;
/// The most bytes before the part of a frame.
const HEAD: usize = 64;
/// The shortest message that a server has to take. With less, nothing could be split sensibly.
pub(super) const LEAST_PAYLOAD: usize = 1 << 10;

const WHOLE: u8 = 0;
const PART: u8 = 1;

/// A message of NATS, opened.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Envelope {
    pub(super) version: u16,
    /// The run of the broker that sent it.
    pub(super) from: Origin,
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Whole(Bytes),
    Part { number: u64, begin: usize, length: usize, bytes: Bytes },
}

/// Puts a frame into as many messages as a server that takes `most` bytes needs.
pub(super) fn seal(from: Origin, frame: &Bytes, number: u64, most: usize) -> Vec<Bytes> {
    let room = most.clamp(LEAST_PAYLOAD, LONGEST_PART) - HEAD;
    if frame.len() <= room {
        let mut out = head(from, WHOLE, frame.len());
        out.extend_from_slice(frame);
        return vec![out.into()];
    }
    let parts = frame.chunks(room).enumerate().map(|(at, part)| {
        let mut out = head(from, PART, part.len());
        put_varint(&mut out, number);
        put_varint(&mut out, (at * room) as u64);
        put_varint(&mut out, frame.len() as u64);
        out.extend_from_slice(part);
        out.into()
    });
    parts.collect()
}

fn head(from: Origin, kind: u8, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + length);
    out.extend_from_slice(&VERSION.to_le_bytes());
    from.encode(&mut out);
    out.push(kind);
    out
}

impl Envelope {
    /// Opens a message. `None`: no broker of a version that works with this one sends it.
    pub(super) fn open(bytes: &Bytes) -> Option<Self> {
        Self::try_open(bytes).ok().filter(|envelope| envelope.version.abs_diff(VERSION) <= 1)
    }

    fn try_open(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut parser = Parser::new(bytes);
        let version = u16::from_le_bytes(parser.array()?);
        let from = Origin::parse(&mut parser)?;
        let content = match parser.byte()? {
            WHOLE => Content::Whole(bytes.slice(parser.at()..)),
            PART => {
                let number = parser.varint()?;
                let (begin, length) = (parser.number(LONGEST_FRAME)?, parser.number(LONGEST_FRAME)?);
                let bytes = bytes.slice(parser.at()..);
                let end = begin.checked_add(bytes.len()).ok_or(Malformed)?;
                if bytes.is_empty() || end > length {
                    return Err(Malformed);
                }
                Content::Part { number, begin, length, bytes }
            }
            _ => return Err(Malformed),
        };
        Ok(Self { version, from, content })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whimbrel_pubsub::message::BrokerId;

    use super::super::assembly::Assembly;
    use super::*;

    proptest! {
        #[test]
        fn frames_of_any_length_come_back(length in 0_usize..20_000, most in 0_usize..4_000) {
            let from = Origin { broker: BrokerId(3), epoch: 9 };
            let frame: Bytes = (0..length).map(|at| at as u8).collect::<Vec<_>>().into();
            let mut assembly = Assembly::default();
            let mut whole = Vec::new();
            for sealed in seal(from, &frame, 7, most) {
                prop_assert!(sealed.len() <= most.max(LEAST_PAYLOAD));
                let envelope = Envelope::open(&sealed).unwrap();
                prop_assert_eq!(envelope.from, from);
                whole.extend(assembly.take(from, envelope.content));
            }
            prop_assert_eq!(whole, vec![frame]);
        }

        #[test]
        fn any_bytes_panic_nowhere(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            drop(Envelope::open(&bytes.into()));
        }
    }
}
