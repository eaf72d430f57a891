//! The frames that brokers send each other.
//!
//! ```text
//! hello     1  version (2 bytes)  cluster (16 bytes)  origin (16 bytes)  channels (number), each: id
//! messages  2  channel  then, one behind the other: stamp  age (ms)  message (length, bytes)
//! heads     3  channel  origins (number), each: origin (16 bytes)  highest sequence
//! request   4  channel  origin  ranges
//! denials   5  channel  origin  gone (ranges)  absent (ranges)
//! stored    6  channel  origin  ranges
//! confirm   7  channel  origin  ranges
//! 8 to 15: about durable subscriptions
//! introduction 20  key (32 bytes)  name  channels (number), each: id  digest (8 bytes)  name  topics (number), each: filter
//! introduction 21  as 20, and then  channels that are kept on disk (number), each: id
//! ranges:   number, each: first sequence  number of further ones
//! ```

mod word;

use std::time::Duration;

use bytes::Bytes;
use whimbrel::PublicKey;
use whimbrel_pubsub::codec::{Malformed, Parser, put_bytes, put_varint};
use whimbrel_pubsub::coverage::{ClusterId, MOST_CHANNELS, Range};
use whimbrel_pubsub::message::{ChannelId, LAST_SEQUENCE, LONGEST_MESSAGE, Message, Origin, Stamp};
use whimbrel_pubsub::topic::MAX_TOPIC_LEN;

use crate::hub::{Aged, ChannelMap, Word};

pub(super) use word::for_version;

/// The application protocol of sessions between brokers.
pub const PROTOCOL: &str = "whimbrel-mesh/1";

/// The version of the frames. Neighbouring versions work together.
pub(super) const VERSION: u16 = 3;
/// The first version that says which channels are kept on disk, where a durable subscription is attached, and what coverage is of.
pub(super) const SAYS_MORE: u16 = 3;

/// The most bytes of messages that are put into one frame, or one message.
pub(super) const FRAME: usize = 16 << 10;
/// The longest name of a broker or channel, bytes. What is beyond is not told.
const LONGEST_NAME: usize = 256;
/// The most topics of a channel that others are told of. Its digest has all.
const MOST_TOPICS: usize = 64;

/// The most origins in one frame.
const MOST_ORIGINS: usize = 1_024;
/// The most ranges in one list.
const MOST_RANGES: usize = 1_024;

/// A frame between brokers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MeshFrame {
    /// The first of a session, in both directions.
    Hello(Hello),
    /// The second of a session, in both directions.
    Introduction(Introduction),
    /// Messages of a channel, each with its age.
    Messages(ChannelId, Vec<Aged>),
    /// The highest sequences that the sender knows.
    Heads(ChannelId, Vec<(Origin, u64)>),
    /// A question for messages of an origin.
    Request(ChannelId, Origin, Vec<Range>),
    /// The ranges of a question that the sender does not have: gone, and never received.
    Denials(ChannelId, Origin, Vec<Range>, Vec<Range>),
    /// Messages of an origin that the sender has on disk.
    Stored(ChannelId, Origin, Vec<Range>),
    /// A question which of these messages are on disk.
    Confirm(ChannelId, Origin, Vec<Range>),
    /// Something about durable subscriptions.
    Word(Word),
}

/// How a broker introduces itself to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hello {
    pub(super) version: u16,
    pub(super) cluster: ClusterId,
    /// The broker's run.
    pub(super) origin: Origin,
    /// Its channels.
    pub(super) channels: Vec<ChannelId>,
}

/// A broker's name, and the channels that it has for the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Introduction {
    pub(super) key: PublicKey,
    pub(super) name: String,
    pub(super) channels: Vec<ChannelMap>,
    /// Those of them that it can keep on disk. `None`: it does not say.
    pub(super) kept: Option<Vec<ChannelId>>,
}

const HELLO: u8 = 1;
const MESSAGES: u8 = 2;
const HEADS: u8 = 3;
const REQUEST: u8 = 4;
const DENIALS: u8 = 5;
const STORED: u8 = 6;
const CONFIRM: u8 = 7;
const INTRODUCTION: u8 = 20;
const WHOLE_INTRODUCTION: u8 = 21;

impl MeshFrame {
    /// The channel that it is about, if it is about one.
    pub(super) fn channel(&self) -> Option<ChannelId> {
        match self {
            Self::Messages(channel, _)
            | Self::Heads(channel, _)
            | Self::Request(channel, ..)
            | Self::Denials(channel, ..)
            | Self::Stored(channel, ..)
            | Self::Confirm(channel, ..) => Some(*channel),
            Self::Hello(_) | Self::Introduction(_) | Self::Word(_) => None,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Hello(Hello { version, cluster, origin, channels }) => {
                out.push(HELLO);
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(&cluster.0.to_le_bytes());
                origin.encode(&mut out);
                put_channels(&mut out, channels);
            }
            Self::Introduction(introduction) => {
                out.push(if introduction.kept.is_some() { WHOLE_INTRODUCTION } else { INTRODUCTION });
                introduction.put(&mut out);
            }
            Self::Messages(channel, messages) => {
                out.push(MESSAGES);
                put_varint(&mut out, channel.0.into());
                for (stamp, message, age) in messages {
                    stamp.encode(&mut out);
                    put_varint(&mut out, u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
                    put_bytes(&mut out, message.encoded());
                }
            }
            Self::Heads(channel, heads) => {
                out.push(HEADS);
                put_varint(&mut out, channel.0.into());
                put_varint(&mut out, heads.len() as u64);
                for (origin, highest) in heads {
                    origin.encode(&mut out);
                    put_varint(&mut out, *highest);
                }
            }
            Self::Request(channel, origin, ranges) => {
                put_question(&mut out, REQUEST, (*channel, *origin), ranges);
            }
            Self::Stored(channel, origin, ranges) => {
                put_question(&mut out, STORED, (*channel, *origin), ranges);
            }
            Self::Confirm(channel, origin, ranges) => {
                put_question(&mut out, CONFIRM, (*channel, *origin), ranges);
            }
            Self::Word(word) => word::encode(word, &mut out),
            Self::Denials(channel, origin, gone, absent) => {
                out.push(DENIALS);
                put_varint(&mut out, channel.0.into());
                origin.encode(&mut out);
                put_ranges(&mut out, gone);
                put_ranges(&mut out, absent);
            }
        }
        out.into()
    }

    /// Reads a frame. `None`: the bytes are none.
    pub(super) fn parse(bytes: &Bytes) -> Option<Self> {
        Self::try_parse(bytes).ok()
    }

    fn try_parse(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut parser = Parser::new(bytes);
        let frame = match parser.byte()? {
            HELLO => Self::Hello(Hello {
                version: u16::from_le_bytes(parser.array()?),
                cluster: ClusterId(u128::from_le_bytes(parser.array()?)),
                origin: Origin::parse(&mut parser)?,
                channels: channel_list(&mut parser)?,
            }),
            kind @ (INTRODUCTION | WHOLE_INTRODUCTION) => {
                let says_kept = kind == WHOLE_INTRODUCTION;
                Self::Introduction(Introduction::parse(&mut parser, says_kept)?)
            }
            MESSAGES => {
                let channel = channel(&mut parser)?;
                let mut messages = Vec::new();
                while !parser.is_empty() {
                    messages.push(aged(&mut parser, bytes)?);
                }
                Self::Messages(channel, messages)
            }
            HEADS => {
                let channel = channel(&mut parser)?;
                let number = parser.number(MOST_ORIGINS)?;
                let heads = (0..number).map(|_| {
                    let origin = Origin::parse(&mut parser)?;
                    let highest = parser.varint()?;
                    if highest > LAST_SEQUENCE { Err(Malformed) } else { Ok((origin, highest)) }
                });
                Self::Heads(channel, heads.collect::<Result<_, _>>()?)
            }
            REQUEST => {
                Self::Request(channel(&mut parser)?, Origin::parse(&mut parser)?, ranges(&mut parser)?)
            }
            STORED => Self::Stored(channel(&mut parser)?, Origin::parse(&mut parser)?, ranges(&mut parser)?),
            CONFIRM => {
                Self::Confirm(channel(&mut parser)?, Origin::parse(&mut parser)?, ranges(&mut parser)?)
            }
            DENIALS => {
                let (channel, origin) = (channel(&mut parser)?, Origin::parse(&mut parser)?);
                Self::Denials(channel, origin, ranges(&mut parser)?, ranges(&mut parser)?)
            }
            kind if word::is_word(kind) => Self::Word(word::parse(kind, &mut parser)?),
            _ => return Err(Malformed),
        };
        if parser.is_empty() { Ok(frame) } else { Err(Malformed) }
    }
}

impl Introduction {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.key.as_bytes());
        put_name(out, &self.name);
        put_varint(out, self.channels.len() as u64);
        for ChannelMap { id, name, topics, digest } in &self.channels {
            put_varint(out, id.0.into());
            out.extend_from_slice(&digest.to_le_bytes());
            put_name(out, name);
            let topics = &topics[..topics.len().min(MOST_TOPICS)];
            put_varint(out, topics.len() as u64);
            topics.iter().for_each(|filter| put_bytes(out, filter.as_str().as_bytes()));
        }
        if let Some(kept) = &self.kept {
            put_channels(out, kept);
        }
    }

    fn parse(parser: &mut Parser<'_>, says_kept: bool) -> Result<Self, Malformed> {
        let key = PublicKey::new(parser.array()?).map_err(|_| Malformed)?;
        let name = text(parser, LONGEST_NAME)?.to_owned();
        let number = parser.number(MOST_CHANNELS)?;
        let channels = (0..number).map(|_| {
            let (id, digest) = (channel(parser)?, u64::from_le_bytes(parser.array()?));
            let name = text(parser, LONGEST_NAME)?.to_owned();
            let number = parser.number(MOST_TOPICS)?;
            let topics = (0..number)
                .map(|_| text(parser, MAX_TOPIC_LEN)?.parse().map_err(|_| Malformed))
                .collect::<Result<_, _>>()?;
            Ok(ChannelMap { id, name, topics, digest })
        });
        let channels = channels.collect::<Result<_, _>>()?;
        let kept = says_kept.then(|| channel_list(parser)).transpose()?;
        Ok(Self { key, name, channels, kept })
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    put_bytes(out, &name.as_bytes()[..name.floor_char_boundary(LONGEST_NAME)]);
}

fn text<'a>(parser: &mut Parser<'a>, most: usize) -> Result<&'a str, Malformed> {
    str::from_utf8(parser.bytes(most)?).map_err(|_| Malformed)
}

/// Whether these bytes are no frame, or one that reads the same once it was written again.
pub(crate) fn read_again(bytes: &Bytes) -> bool {
    MeshFrame::parse(bytes).is_none_or(|frame| MeshFrame::parse(&frame.encode()) == Some(frame))
}

fn channel(parser: &mut Parser<'_>) -> Result<ChannelId, Malformed> {
    u32::try_from(parser.varint()?).map(ChannelId).map_err(|_| Malformed)
}

fn put_channels(out: &mut Vec<u8>, channels: &[ChannelId]) {
    put_varint(out, channels.len() as u64);
    channels.iter().for_each(|channel| put_varint(out, channel.0.into()));
}

fn channel_list(parser: &mut Parser<'_>) -> Result<Vec<ChannelId>, Malformed> {
    let number = parser.number(MOST_CHANNELS)?;
    (0..number).map(|_| channel(parser)).collect()
}

fn aged(parser: &mut Parser<'_>, bytes: &Bytes) -> Result<Aged, Malformed> {
    let (stamp, length) = Stamp::parse(&bytes[parser.at()..]).ok_or(Malformed)?;
    parser.take(length)?;
    let age = Duration::from_millis(parser.varint()?);
    let length = parser.bytes(LONGEST_MESSAGE)?.len();
    let message = Message::parse(bytes.slice(parser.at() - length..parser.at())).map_err(|_| Malformed)?;
    Ok((stamp, message, age))
}

fn put_question(out: &mut Vec<u8>, kind: u8, (channel, origin): (ChannelId, Origin), ranges: &[Range]) {
    out.push(kind);
    put_varint(out, channel.0.into());
    origin.encode(out);
    put_ranges(out, ranges);
}

fn put_ranges(out: &mut Vec<u8>, ranges: &[Range]) {
    put_varint(out, ranges.len() as u64);
    for range in ranges {
        put_varint(out, range.first);
        put_varint(out, range.last - range.first);
    }
}

fn ranges(parser: &mut Parser<'_>) -> Result<Vec<Range>, Malformed> {
    let number = parser.number(MOST_RANGES)?;
    let ranges = (0..number).map(|_| {
        let first = parser.varint()?;
        let last =
            first.checked_add(parser.varint()?).filter(|last| *last <= LAST_SEQUENCE).ok_or(Malformed)?;
        if first == 0 { Err(Malformed) } else { Ok(Range { first, last }) }
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, PartitionId};

    use super::*;
    use crate::durable::Life;
    use crate::store::{DurableSubscription, Fact, SubscriptionName};
    use whimbrel_pubsub::coverage::Coverage;

    #[test]
    fn frames_come_back() {
        let origin = Origin { broker: BrokerId(3), epoch: 9 };
        let message = Draft { topic: "t", payload: b"x", ..Draft::default() }.finish().unwrap();
        let stamp = Stamp { origin, sequence: 7, partition: PartitionId(1), ordinal: 4, published: Hlc(5) };
        let aged = (stamp, message, Duration::from_millis(40));
        let ranges = vec![Range { first: 1, last: 3 }, Range { first: 9, last: 9 }];
        let channel = ChannelId(70_000);
        let mut coverage = Coverage::default();
        coverage.entry(channel).unwrap().insert(origin, ranges[0]).unwrap();
        let (name, life) =
            (SubscriptionName::new("0a0b/board").unwrap(), Life { born: 1 << 60, generation: 3 });
        let subscription = DurableSubscription {
            name: name.clone(),
            owner: vec![10, 11],
            filter: "prices/#".into(),
            selector: Some("price > 10".into()),
            channels: vec![channel],
            generation: life.generation,
            born: life.born,
        };
        let strange = DurableSubscription { owner: vec![10], ..subscription.clone() };
        let strange = MeshFrame::Word(Word::Fact(Fact::Kept(strange)));
        assert_eq!(MeshFrame::parse(&strange.encode()), None, "a name of another owner");
        let session = SubscriptionName::new("mqtt-0a0b/75").unwrap();
        for word in [
            Word::Confirmed { name: session.clone(), life },
            Word::Fact(Fact::Ended { name: session.clone(), life, left: Duration::from_secs(9) }),
            Word::Fact(Fact::Covered { name: session, life, selects: None, coverage: coverage.clone() }),
        ] {
            let bytes = MeshFrame::Word(word).encode();
            assert_eq!(MeshFrame::parse(&bytes), None, "sessions are their broker's own");
        }
        let introduction = |kept| {
            MeshFrame::Introduction(Introduction {
                key: whimbrel::new_identity().public(),
                name: "harbour".into(),
                channels: vec![ChannelMap {
                    id: channel,
                    name: "prices".into(),
                    topics: vec!["prices/#".parse().unwrap()],
                    digest: 7,
                }],
                kept,
            })
        };
        let covered = |selects| {
            let (name, coverage) = (name.clone(), coverage.clone());
            MeshFrame::Word(Word::Fact(Fact::Covered { name, life, selects, coverage }))
        };
        for frame in [
            MeshFrame::Hello(Hello { version: 1, cluster: ClusterId(8), origin, channels: vec![channel] }),
            introduction(None),
            introduction(Some(vec![channel])),
            MeshFrame::Messages(channel, vec![aged.clone(), aged]),
            MeshFrame::Heads(channel, vec![(origin, 12)]),
            MeshFrame::Request(channel, origin, ranges.clone()),
            MeshFrame::Denials(channel, origin, ranges.clone(), Vec::new()),
            MeshFrame::Stored(channel, origin, ranges.clone()),
            MeshFrame::Confirm(channel, origin, ranges),
            MeshFrame::Word(Word::Fact(Fact::Kept(subscription))),
            covered(None),
            covered(Some(1 << 60)),
            MeshFrame::Word(Word::Attached { name: name.clone(), life, selects: 7 }),
            MeshFrame::Word(Word::Fact(Fact::Ended {
                name: name.clone(),
                life,
                left: Duration::from_secs(9),
            })),
            MeshFrame::Word(Word::Confirmed { name, life }),
            MeshFrame::Word(Word::ToldAll),
            MeshFrame::Word(Word::TellAll),
        ] {
            assert_eq!(MeshFrame::parse(&frame.encode()), Some(frame));
        }
    }

    #[test]
    fn a_neighbour_of_version_2_gets_no_frame_that_it_does_not_know() {
        let (name, life) = (SubscriptionName::new("0a0b/board").unwrap(), Life { born: 1, generation: 3 });
        let attached = Word::Attached { name: name.clone(), life, selects: 7 };
        assert_eq!(for_version(attached.clone(), 3), Some(attached.clone()));
        assert_eq!(for_version(attached, 2), None);
        let covered = |selects| {
            Word::Fact(Fact::Covered { name: name.clone(), life, selects, coverage: Coverage::default() })
        };
        assert_eq!(for_version(covered(Some(7)), 2), Some(covered(None)));
        assert_eq!(for_version(Word::TellAll, 2), Some(Word::TellAll));
    }

    proptest! {
        #[test]
        fn any_bytes_panic_nowhere(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            drop(MeshFrame::parse(&bytes.into()));
        }
    }
}
