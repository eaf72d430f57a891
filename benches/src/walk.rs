//! A quick look at what a broker tells a native subscriber: no more is read than a count needs.

use bytes::Bytes;
use whimbrel_pubsub::codec::{Malformed, Parser};
use whimbrel_pubsub::message::LONGEST_MESSAGE;

/// The kind of a frame that tells, and those of the things in it, as docs/broker-protocol.md has them.
const TELLING: u8 = 2;
const DELIVERY: u8 = 0;
const COVERS: u8 = 1;
const FATE: u8 = 2;
const OUTSTANDING: u8 = 3;
const RECOVERED: u8 = 4;
const UNKNOWN_ORIGIN: u8 = 5;
const SAME: u8 = 1 << 6;
const ALONE: u8 = 1 << 7;

/// Shows the encoded messages of a frame's deliveries.
///
/// # Errors
/// The bytes are no frame.
pub(crate) fn walk(frame: &Bytes, mut see: impl FnMut(&[u8])) -> Result<(), Malformed> {
    let mut parser = Parser::new(frame);
    if parser.byte()? != TELLING {
        return Ok(());
    }
    parser.varint()?;
    while !parser.is_empty() {
        let head = parser.byte()?;
        if head & 7 != DELIVERY {
            pass_over(head & 7, &mut parser)?;
            continue;
        }
        if head & SAME == 0 {
            parser.take(16)?;
        }
        for _ in 0..3 {
            parser.varint()?;
        }
        parser.byte()?;
        if head & ALONE == 0 {
            parser.varint()?;
            parser.varint()?;
        }
        see(parser.bytes(LONGEST_MESSAGE)?);
    }
    Ok(())
}

/// Passes over something that is told beside deliveries.
fn pass_over(kind: u8, parser: &mut Parser<'_>) -> Result<(), Malformed> {
    let count = |parser: &mut Parser<'_>| parser.varint().and_then(|_| parser.byte()).map(drop);
    if let COVERS | FATE | UNKNOWN_ORIGIN = kind {
        parser.take(16)?;
    }
    if let COVERS | FATE = kind {
        parser.varint()?;
        parser.varint()?;
    }
    if kind == FATE {
        parser.byte()?;
        count(parser)?;
        parser.byte()?;
    }
    if let OUTSTANDING | RECOVERED = kind {
        parser.varint()?;
        count(parser)?;
        parser.varint()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::coverage::{Count, Cover, Delivery, Fate, Outstanding, Range, Recovered, Told};
    use whimbrel_pubsub::frame::Telling;
    use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Origin, PartitionId, Stamp};

    use super::*;

    #[test]
    fn the_walk_sees_what_the_codec_writes() {
        let origin = Origin { broker: BrokerId(7), epoch: 9 };
        let mut telling = Telling::new(ChannelId(0));
        let (count, range) = (Count { number: 300, exact: true }, Range { first: 1, last: 4 });
        let beside = [
            Told::Outstanding(Outstanding { outstanding: 4, gone: count, missing: 200 }),
            Told::Covers(Cover { origin, range }),
            Told::Fate { cover: Cover { origin, range }, fate: Fate::Gone, count, closed: true },
            Told::UnknownOrigin(origin),
            Told::Recovered(Recovered { recovered: 4, gone: count, superseded: 0 }),
        ];
        beside.iter().for_each(|told| telling.push(told));
        let message = |number: u64| {
            let payload = [number as u8; 50];
            Draft { topic: "fan/out", payload: &payload, ..Draft::default() }.finish().unwrap()
        };
        for sequence in 5..9 {
            let stamp = Stamp {
                origin,
                sequence,
                partition: PartitionId(0),
                ordinal: sequence,
                published: Hlc::at(sequence),
            };
            let range = Range { first: sequence - sequence % 2, last: sequence };
            let cover = Cover { origin, range };
            let message = message(sequence);
            let (recovered, late, retained) = (false, false, false);
            telling.push(&Told::Delivery(Delivery { cover, stamp, message, recovered, late, retained }));
        }
        let mut all = Vec::new();
        walk(&telling.finish(), |message| all.push(message.to_vec())).unwrap();
        let expected: Vec<_> = (5..9).map(|number| message(number).encoded().to_vec()).collect();
        assert_eq!(all, expected);
    }
}
