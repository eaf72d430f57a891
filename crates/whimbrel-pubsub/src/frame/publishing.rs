//! Frames outside of subscriptions: greetings, what is published, and its acknowledgements.

use bytes::Bytes;

use super::error::{FrameError, Refusal};
use super::fields::{put_text, text, u32_of};
use super::limits::LONGEST_NAME;
use crate::codec::{Malformed, Parser, put_varint};
use crate::coverage::ClusterId;
use crate::message::{BrokerId, Hlc, Message};

/// A frame that a client sends outside of subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// The first message of a session.
    Hello(Hello),
    /// A message to publish. The number names it in the answer: 1 for the first of the session, then one more each.
    Publish(u64, Message),
}

/// The introduction of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The time of the last message that was acknowledged to this publisher, by any broker. What it publishes from now on is later.
    pub latest: Hlc,
    /// The client's name, for status and logs. May be empty.
    pub name: String,
}

/// A frame that a broker sends outside of subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerFrame {
    /// The answer to [`ClientFrame::Hello`].
    Welcome(Welcome),
    /// The messages `first` to `last` were taken, the last at `latest`.
    Published {
        /// The first number.
        first: u64,
        /// The last number.
        last: u64,
        /// When the last was published.
        latest: Hlc,
    },
    /// The message with this number was not taken.
    Refused(u64, Refusal),
}

/// The introduction of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The cluster, to which the states of subscriptions belong.
    pub cluster: ClusterId,
    /// The broker.
    pub broker: BrokerId,
    /// The broker's name.
    pub name: String,
    /// The publisher's credit: what it may send before an answer has come. A client that sends more is disconnected.
    pub credit: Credit,
}

/// The credit of a publisher: what it may send before an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Messages.
    pub messages: u32,
    /// Encoded bytes. One message may always be sent.
    pub bytes: u32,
}

const HELLO: u8 = 1;
const PUBLISH: u8 = 2;
const WELCOME: u8 = 1;
const PUBLISHED: u8 = 2;
const REFUSED: u8 = 3;

impl ClientFrame {
    /// Returns the frame as bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(32);
        match self {
            Self::Hello(Hello { latest, name }) => {
                out.push(HELLO);
                put_varint(&mut out, latest.0);
                put_text(&mut out, name);
            }
            Self::Publish(number, message) => {
                out.reserve(message.encoded().len());
                out.push(PUBLISH);
                put_varint(&mut out, *number);
                out.extend_from_slice(message.encoded());
            }
        }
        out.into()
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// The bytes are no frame, or a message that cannot be published.
    pub fn parse(bytes: &Bytes) -> Result<Self, FrameError> {
        let mut parser = Parser::new(bytes);
        match parser.byte()? {
            HELLO => {
                let latest = Hlc(parser.varint()?);
                let name = text(&mut parser, LONGEST_NAME)?;
                whole(&parser, Self::Hello(Hello { latest, name }))
            }
            PUBLISH => {
                let number = parser.varint()?;
                Ok(Self::Publish(number, Message::parse(bytes.slice(parser.at()..))?))
            }
            _ => Err(FrameError::Malformed),
        }
    }

    /// Returns the number of a message that could not be read, so that its refusal can name it.
    pub fn number_of(bytes: &[u8]) -> Option<u64> {
        let mut parser = Parser::new(bytes);
        (parser.byte() == Ok(PUBLISH)).then(|| parser.varint().ok())?
    }
}

impl BrokerFrame {
    /// Returns the frame as bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(32);
        match self {
            Self::Welcome(Welcome { cluster, broker, name, credit }) => {
                out.push(WELCOME);
                out.extend_from_slice(&cluster.0.to_le_bytes());
                out.extend_from_slice(&broker.0.to_le_bytes());
                put_text(&mut out, name);
                put_varint(&mut out, credit.messages.into());
                put_varint(&mut out, credit.bytes.into());
            }
            Self::Published { first, last, latest } => {
                out.push(PUBLISHED);
                put_varint(&mut out, *first);
                put_varint(&mut out, last.saturating_sub(*first));
                put_varint(&mut out, latest.0);
            }
            Self::Refused(number, refusal) => {
                out.push(REFUSED);
                put_varint(&mut out, *number);
                refusal.encode(&mut out);
            }
        }
        out.into()
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// The bytes are no frame.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut parser = Parser::new(bytes);
        let frame = match parser.byte()? {
            WELCOME => Self::Welcome(Welcome {
                cluster: ClusterId(u128::from_le_bytes(parser.array()?)),
                broker: BrokerId(u64::from_le_bytes(parser.array()?)),
                name: text(&mut parser, LONGEST_NAME)?,
                credit: Credit { messages: u32_of(&mut parser)?, bytes: u32_of(&mut parser)? },
            }),
            PUBLISHED => {
                let first = parser.varint()?;
                let last = first.checked_add(parser.varint()?).ok_or(Malformed)?;
                Self::Published { first, last, latest: Hlc(parser.varint()?) }
            }
            REFUSED => Self::Refused(parser.varint()?, Refusal::parse(&mut parser)?),
            _ => return Err(FrameError::Malformed),
        };
        whole(&parser, frame)
    }
}

/// The frame, unless something follows it.
pub(super) fn whole<T>(parser: &Parser<'_>, frame: T) -> Result<T, FrameError> {
    if parser.is_empty() { Ok(frame) } else { Err(FrameError::Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::RefusalCode;
    use crate::message::Draft;

    #[test]
    fn frames_come_back() {
        let message = Draft { topic: "fish/cod", payload: b"4.20", ..Draft::default() }.finish().unwrap();
        for frame in [
            ClientFrame::Hello(Hello { latest: Hlc(77), name: "a ship".into() }),
            ClientFrame::Publish(300, message),
        ] {
            assert_eq!(ClientFrame::parse(&frame.encode()), Ok(frame));
        }
        let credit = Credit { messages: 1_024, bytes: 1 << 20 };
        for frame in [
            BrokerFrame::Welcome(Welcome {
                cluster: ClusterId(9),
                broker: BrokerId(3),
                name: "harbour".into(),
                credit,
            }),
            BrokerFrame::Published { first: 3, last: 9, latest: Hlc(1) },
            BrokerFrame::Refused(4, Refusal::new(RefusalCode::NotPermitted, "no")),
        ] {
            assert_eq!(BrokerFrame::parse(&frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn a_message_that_cannot_be_published_keeps_its_number() {
        let bytes = Bytes::from_static(&[PUBLISH, 7, 0xff]);
        assert!(ClientFrame::parse(&bytes).is_err());
        assert_eq!(ClientFrame::number_of(&bytes), Some(7));
        assert_eq!(ClientFrame::number_of(&[HELLO, 7]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_panic_nowhere(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            drop(BrokerFrame::parse(&bytes));
            drop(ClientFrame::parse(&bytes.into()));
        }
    }
}
