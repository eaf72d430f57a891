//! The name of a message at every broker.

use crate::codec::{Malformed, Parser, put_varint};

/// The largest sequence. A larger one is malformed, so that sums of sequences cannot overflow.
pub const LAST_SEQUENCE: u64 = (1 << 62) - 1;

/// A broker, as configured in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub u64);

/// A channel: a configured set of topics that is buffered, routed and numbered as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// A partition of a channel's buffer, by its place in the channel map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u8);

/// One run of one broker, at which messages enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The broker.
    pub broker: BrokerId,
    /// A random number, new at each start of the process: a restored disk cannot reuse sequences.
    pub epoch: u64,
}

/// A reading of a hybrid logical clock: milliseconds since 1970 in the upper 48 bits, a count in the lower 16. It orders messages of
/// different origins, by time as far as clocks agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hlc(pub u64);

impl Hlc {
    /// Returns the first reading in this millisecond since 1970.
    pub const fn at(wall_ms: u64) -> Self {
        Self(wall_ms << 16)
    }
}

/// The name of a message, which the broker at which it entered gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Where it entered.
    pub origin: Origin,
    /// Its number at the origin, in its channel, from 1, without gaps.
    pub sequence: u64,
    /// Its partition.
    pub partition: PartitionId,
    /// Its number among the origin's messages in the partition, from 1.
    pub ordinal: u64,
    /// When it entered.
    pub published: Hlc,
}

impl Origin {
    /// Appends the origin as it travels: 16 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.broker.0.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
    }

    /// Reads an origin.
    ///
    /// # Errors
    /// There are fewer than 16 bytes.
    pub fn parse(parser: &mut Parser<'_>) -> Result<Self, Malformed> {
        let broker = BrokerId(u64::from_le_bytes(parser.array()?));
        Ok(Self { broker, epoch: u64::from_le_bytes(parser.array()?) })
    }
}

impl Stamp {
    /// Appends the stamp as it travels between brokers and to subscribers.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.origin.encode(out);
        put_varint(out, self.sequence);
        out.push(self.partition.0);
        put_varint(out, self.ordinal);
        out.extend_from_slice(&self.published.0.to_le_bytes());
    }

    /// Reads a stamp from the front of `bytes`. Returns it and its length.
    ///
    /// Returns `None` if there is no stamp, or if its numbers contradict each other.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut parser = Parser::new(bytes);
        let stamp = Self::parse_from(&mut parser).ok()?;
        stamp.is_sound().then_some((stamp, parser.at()))
    }

    fn parse_from(parser: &mut Parser<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            origin: Origin::parse(parser)?,
            sequence: parser.varint()?,
            partition: PartitionId(parser.byte()?),
            ordinal: parser.varint()?,
            published: Hlc(u64::from_le_bytes(parser.array()?)),
        })
    }

    /// A message is at most the sequence-th of its partition.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=LAST_SEQUENCE).contains(&self.sequence) && (1..=self.sequence).contains(&self.ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_in_one_way(bytes in proptest::collection::vec(any::<u8>(), 0..48)) {
            if let Some((stamp, length)) = Stamp::parse(&bytes) {
                let mut out = Vec::new();
                stamp.encode(&mut out);
                prop_assert_eq!(&out[..], &bytes[..length]);
            }
        }

        #[test]
        fn a_stamp_comes_back(broker: u64, epoch: u64, sequence in 1..=LAST_SEQUENCE, partition: u8, hlc: u64) {
            let origin = Origin { broker: BrokerId(broker), epoch };
            let partition = PartitionId(partition);
            let stamp = Stamp { origin, sequence, partition, ordinal: sequence, published: Hlc(hlc) };
            let mut out = Vec::new();
            stamp.encode(&mut out);
            prop_assert_eq!(Stamp::parse(&out), Some((stamp, out.len())));
            let beyond = Stamp { ordinal: sequence + 1, ..stamp };
            out.clear();
            beyond.encode(&mut out);
            prop_assert_eq!(Stamp::parse(&out), None);
        }
    }
}
