//! The frame that tells a subscription about a channel: several things, each as a difference to the one before.
//!
//! ```text
//! 2 (1 byte)  channel (number)  then, one behind the other:
//! head (1 byte): the kind in the lower 3 bits, flags above
//! delivery (kind 0)       unless the flag SAME is set: origin (16 bytes)
//!                         sequence, ordinal, time: differences to those of the delivery before (to 0 if SAME is not set)
//!                         partition (1 byte)  [first and last sequence of the cover: differences to the sequence, unless ALONE is set]
//!                         message (length, bytes)
//! covers (1)              cover
//! fate (2)                cover  fate (1 byte)  count (number, 1 byte: whether it is exact)  closed (1 byte)
//! outstanding (3)         outstanding (number)  gone (count)  missing (number)
//! recovered (4)           recovered (number)  gone (count)  superseded (number)
//! unknown origin (5)      origin (16 bytes)
//! cover:                  origin (16 bytes)  first sequence  number of further sequences
//! ```

use bytes::Bytes;

use super::error::FrameError;
use super::fields::{count, cover, difference, flag, put_count, put_cover, put_difference, range, u32_of};
use crate::codec::{Malformed, Parser, put_varint};
use crate::coverage::{Cover, Delivery, Fate, Outstanding, Recovered, Told};
use crate::message::{ChannelId, Hlc, LONGEST_MESSAGE, Message, Origin, PartitionId, Stamp};

pub(super) const TELLING: u8 = 2;

const DELIVERY: u8 = 0;
const COVERS: u8 = 1;
const FATE: u8 = 2;
const OUTSTANDING: u8 = 3;
const RECOVERED: u8 = 4;
const UNKNOWN_ORIGIN: u8 = 5;
const KIND: u8 = 7;

const IS_RECOVERED: u8 = 1 << 3;
const IS_LATE: u8 = 1 << 4;
const IS_RETAINED: u8 = 1 << 5;
/// The origin is that of the delivery before.
const SAME: u8 = 1 << 6;
/// The delivery covers its message alone.
const ALONE: u8 = 1 << 7;

/// The most things that one frame tells. One that fits into a packet has far fewer.
const MOST_TOLD: usize = 4_096;

/// The most bytes that a delivery takes beside its message.
const DELIVERY_HEAD: usize = 80;

/// A frame that is being written.
#[derive(Debug)]
pub struct Telling {
    out: Vec<u8>,
    before: Option<Stamp>,
    empty: usize,
}

impl Telling {
    /// Creates a frame about `channel`.
    pub fn new(channel: ChannelId) -> Self {
        let mut out = vec![TELLING];
        put_varint(&mut out, channel.0.into());
        Self { empty: out.len(), out, before: None }
    }

    /// Returns the bytes so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether nothing is told yet.
    pub fn is_empty(&self) -> bool {
        self.out.len() == self.empty
    }

    /// Returns the frame.
    pub fn finish(self) -> Bytes {
        self.out.into()
    }

    /// Adds something.
    pub fn push(&mut self, told: &Told) {
        let out = &mut self.out;
        match told {
            Told::Delivery(delivery) => self.push_delivery(delivery),
            Told::Covers(cover) => {
                out.push(COVERS);
                put_cover(out, cover);
            }
            Told::Fate { cover, fate, count, closed } => {
                out.push(FATE);
                put_cover(out, cover);
                out.push(match fate {
                    Fate::Gone => 0,
                    Fate::Superseded => 1,
                    Fate::Unknown => 2,
                });
                put_count(out, *count);
                out.push((*closed).into());
            }
            Told::Outstanding(Outstanding { outstanding, gone, missing }) => {
                out.push(OUTSTANDING);
                put_varint(out, *outstanding);
                put_count(out, *gone);
                put_varint(out, *missing);
            }
            Told::Recovered(Recovered { recovered, gone, superseded }) => {
                out.push(RECOVERED);
                put_varint(out, *recovered);
                put_count(out, *gone);
                put_varint(out, *superseded);
            }
            Told::UnknownOrigin(origin) => {
                out.push(UNKNOWN_ORIGIN);
                origin.encode(out);
            }
        }
    }

    fn push_delivery(&mut self, delivery: &Delivery) {
        let Delivery { cover, stamp, message, recovered, late, retained } = delivery;
        let out = &mut self.out;
        out.reserve(DELIVERY_HEAD + message.encoded().len());
        let before = self.before.filter(|before| before.origin == stamp.origin);
        let is_alone = cover.range.first == stamp.sequence && cover.range.last == stamp.sequence;
        let flag = |bit: u8, set: bool| if set { bit } else { 0 };
        out.push(
            DELIVERY
                | flag(IS_RECOVERED, *recovered)
                | flag(IS_LATE, *late)
                | flag(IS_RETAINED, *retained)
                | flag(SAME, before.is_some())
                | flag(ALONE, is_alone),
        );
        if before.is_none() {
            stamp.origin.encode(out);
        }
        let (sequence, ordinal, time) =
            before.map_or((0, 0, 0), |before| (before.sequence, before.ordinal, before.published.0));
        put_difference(out, sequence, stamp.sequence);
        put_difference(out, ordinal, stamp.ordinal);
        put_difference(out, time, stamp.published.0);
        out.push(stamp.partition.0);
        if !is_alone {
            put_difference(out, stamp.sequence, cover.range.first);
            put_difference(out, stamp.sequence, cover.range.last);
        }
        put_varint(out, message.encoded().len() as u64);
        out.extend_from_slice(message.encoded());
        self.before = Some(*stamp);
    }
}

/// Returns the length of a telling's head. Behind it are the things told. Those of a second telling with the same head may follow those of
/// the first, since a telling refers to nothing before itself.
pub fn telling_head(frame: &[u8]) -> usize {
    let is_last = |byte: &u8| byte & 0x80 == 0;
    frame.iter().skip(1).position(is_last).map_or(frame.len(), |last| last + 2)
}

/// Reads a frame about a channel.
///
/// # Errors
/// The bytes are no such frame.
pub fn parse_telling(bytes: &Bytes) -> Result<(ChannelId, Vec<Told>), FrameError> {
    let mut parser = Parser::new(bytes);
    if parser.byte()? != TELLING {
        return Err(FrameError::Malformed);
    }
    let channel = ChannelId(u32_of(&mut parser)?);
    let (mut all, mut before) = (Vec::new(), None);
    while !parser.is_empty() {
        if all.len() == MOST_TOLD {
            return Err(FrameError::Malformed);
        }
        let head = parser.byte()?;
        if head & KIND == DELIVERY {
            let delivery = parse_delivery(head, &mut parser, before, bytes)?;
            before = Some(delivery.stamp);
            all.push(Told::Delivery(delivery));
        } else {
            all.push(parse_other(head, &mut parser)?);
        }
    }
    Ok((channel, all))
}

fn parse_delivery(
    head: u8,
    parser: &mut Parser<'_>,
    before: Option<Stamp>,
    bytes: &Bytes,
) -> Result<Delivery, FrameError> {
    let (origin, sequence, ordinal, time) = if head & SAME == 0 {
        (Origin::parse(parser)?, 0, 0, 0)
    } else {
        let before = before.ok_or(Malformed)?;
        (before.origin, before.sequence, before.ordinal, before.published.0)
    };
    let sequence = difference(parser, sequence)?;
    let ordinal = difference(parser, ordinal)?;
    let published = Hlc(difference(parser, time)?);
    let stamp = Stamp { origin, sequence, partition: PartitionId(parser.byte()?), ordinal, published };
    let (first, last) = if head & ALONE == 0 {
        (difference(parser, sequence)?, difference(parser, sequence)?)
    } else {
        (sequence, sequence)
    };
    let range = range(first, last)?;
    if !stamp.is_sound() || !(first..=last).contains(&sequence) {
        return Err(FrameError::Malformed);
    }
    let length = parser.bytes(LONGEST_MESSAGE)?.len();
    let message = Message::parse(bytes.slice(parser.at() - length..parser.at()))?;
    let has = |bit: u8| head & bit != 0;
    let (recovered, late, retained) = (has(IS_RECOVERED), has(IS_LATE), has(IS_RETAINED));
    Ok(Delivery { cover: Cover { origin, range }, stamp, message, recovered, late, retained })
}

fn parse_other(head: u8, parser: &mut Parser<'_>) -> Result<Told, Malformed> {
    Ok(match head {
        COVERS => Told::Covers(cover(parser)?),
        FATE => Told::Fate {
            cover: cover(parser)?,
            fate: match parser.byte()? {
                0 => Fate::Gone,
                1 => Fate::Superseded,
                2 => Fate::Unknown,
                _ => return Err(Malformed),
            },
            count: count(parser)?,
            closed: flag(parser)?,
        },
        OUTSTANDING => Told::Outstanding(Outstanding {
            outstanding: parser.varint()?,
            gone: count(parser)?,
            missing: parser.varint()?,
        }),
        RECOVERED => Told::Recovered(Recovered {
            recovered: parser.varint()?,
            gone: count(parser)?,
            superseded: parser.varint()?,
        }),
        UNKNOWN_ORIGIN => Told::UnknownOrigin(Origin::parse(parser)?),
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coverage::{Count, Range};
    use crate::message::{BrokerId, Draft, LAST_SEQUENCE};

    fn any_told() -> impl Strategy<Value = Told> {
        let origin =
            (0_u64..2, 0_u64..2).prop_map(|(broker, epoch)| Origin { broker: BrokerId(broker), epoch });
        let range = (1_u64..LAST_SEQUENCE - 1_000, 0_u64..1_000)
            .prop_map(|(first, more)| Range { first, last: first + more });
        let cover = (origin.clone(), range).prop_map(|(origin, range)| Cover { origin, range });
        let count = (0_u64..1_000, any::<bool>()).prop_map(|(number, exact)| Count { number, exact });
        let delivery = (cover.clone(), 0_u64..1_000, any::<[bool; 3]>(), any::<u64>(), 0_usize..300)
            .prop_map(|(cover, at, [recovered, late, retained], time, length)| {
                let sequence = (cover.range.first + at).min(cover.range.last);
                let stamp = Stamp {
                    origin: cover.origin,
                    sequence,
                    partition: PartitionId(at as u8),
                    ordinal: 1 + at.min(sequence - 1),
                    published: Hlc(time),
                };
                let payload = vec![7; length];
                let message = Draft { topic: "a/b", payload: &payload, ..Draft::default() }.finish().unwrap();
                Told::Delivery(Delivery { cover, stamp, message, recovered, late, retained })
            });
        let fate = prop_oneof![Just(Fate::Gone), Just(Fate::Superseded), Just(Fate::Unknown)];
        prop_oneof![
            6 => delivery,
            1 => cover.clone().prop_map(Told::Covers),
            1 => (cover, fate, count.clone(), any::<bool>())
                .prop_map(|(cover, fate, count, closed)| Told::Fate { cover, fate, count, closed }),
            1 => (any::<u64>(), count.clone(), any::<u64>())
                .prop_map(|(outstanding, gone, missing)| Told::Outstanding(Outstanding { outstanding, gone, missing })),
            1 => (any::<u64>(), count, any::<u64>())
                .prop_map(|(recovered, gone, superseded)| Told::Recovered(Recovered { recovered, gone, superseded })),
            1 => origin.prop_map(Told::UnknownOrigin),
        ]
    }

    proptest! {
        #[test]
        fn what_is_told_comes_back(told in proptest::collection::vec(any_told(), 0..12), channel: u32) {
            let mut telling = Telling::new(ChannelId(channel));
            prop_assert!(telling.is_empty());
            told.iter().for_each(|told| telling.push(told));
            prop_assert_eq!(telling.is_empty(), told.is_empty());
            prop_assert_eq!(parse_telling(&telling.finish()), Ok((ChannelId(channel), told)));
        }

        #[test]
        fn tellings_of_one_channel_can_be_joined(
            first in proptest::collection::vec(any_told(), 0..6),
            second in proptest::collection::vec(any_told(), 0..6),
            channel: u32,
        ) {
            let tell = |told: &[Told]| {
                let mut telling = Telling::new(ChannelId(channel));
                told.iter().for_each(|told| telling.push(told));
                telling.finish()
            };
            let (front, back) = (tell(&first), tell(&second));
            let head = telling_head(&back);
            prop_assert_eq!(&front[..head], &back[..head]);
            let joined = [&front[..], &back[head..]].concat();
            prop_assert_eq!(parse_telling(&joined.into()), Ok((ChannelId(channel), [first, second].concat())));
        }

        #[test]
        fn changed_bytes_panic_nowhere(
            told in proptest::collection::vec(any_told(), 1..4), at: prop::sample::Index, to: u8,
        ) {
            let mut telling = Telling::new(ChannelId(1));
            told.iter().for_each(|told| telling.push(told));
            let mut bytes = telling.finish().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = to;
            drop(parse_telling(&bytes.into()));
        }
    }

    #[test]
    fn a_delivery_behind_another_takes_few_bytes() {
        let origin = Origin { broker: BrokerId(1), epoch: u64::MAX };
        let message = Draft { topic: "t", payload: &[0; 50], ..Draft::default() }.finish().unwrap();
        let mut telling = Telling::new(ChannelId(0));
        let mut last = 0;
        for sequence in 1_000_000..1_000_002 {
            let stamp = Stamp {
                origin,
                sequence,
                partition: PartitionId(0),
                ordinal: sequence,
                published: Hlc::at(1_700_000_000_000 + sequence),
            };
            let cover = Cover { origin, range: Range { first: sequence, last: sequence } };
            let message = message.clone();
            let (recovered, late, retained) = (false, false, false);
            let before = telling.len();
            telling.push(&Told::Delivery(Delivery { cover, stamp, message, recovered, late, retained }));
            last = telling.len() - before;
        }
        // A millisecond later, which takes three bytes.
        assert_eq!(last, message.encoded().len() + 8);
    }
    #[test]
    fn regression_a_long_frame_does_not_become_many_times_as_long_in_memory() {
        let tell = |number: usize| {
            let mut telling = Telling::new(ChannelId(0));
            let unknown = Told::UnknownOrigin(Origin { broker: BrokerId(1), epoch: 2 });
            (0..number).for_each(|_| telling.push(&unknown));
            parse_telling(&telling.finish())
        };
        assert_eq!(tell(MOST_TOLD).map(|(_, told)| told.len()), Ok(MOST_TOLD));
        assert_eq!(tell(MOST_TOLD + 1), Err(FrameError::Malformed));
    }
}
