//! A log catches up with its channel once the disk has room again.

use std::collections::BTreeMap;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, Origin};

use super::room::Room;
use crate::buffer::{Channel, GapRequest};
use crate::{Now, Time};

/// The most messages of the buffer that are appended in one go.
const MOST_PAID: usize = 4_096;
/// The most ranges of an origin in one question to another broker.
const MOST_ASKED: usize = 64;

impl Room {
    /// Appends again what did not fit on the disk, and what is owed to the log and is held here. Call it several times a second.
    pub(super) fn catch_up(&self, now: Now) {
        let logging = self.logging();
        logging.append_again();
        if !logging.may_pay() {
            return;
        }
        let (owed, mut left) = (logging.owed().all(), MOST_PAID);
        let channel = self.read();
        for (origin, ranges) in owed {
            let Some((_, log)) = channel.log_of(origin) else { continue };
            let held = ranges.iter().flat_map(|range| log.held(range).collect::<Vec<_>>());
            for slot in held.filter_map(|(_, slot)| channel.slot(slot)) {
                let is_paid = left > 0 && logging.pay(slot.stamp(), slot.message(), slot.age(now.time), now);
                if !is_paid {
                    return;
                }
                left -= 1;
            }
        }
    }

    /// The questions that are due for what is owed to the log and is not held here any more.
    pub(super) fn poll_fetches(&self, now: Time) -> Vec<GapRequest> {
        let logging = self.logging();
        if !logging.may_pay() {
            return Vec::new();
        }
        let Some(turn) = logging.owed().ask(now) else { return Vec::new() };
        let owed = logging.owed().all();
        let channel = self.read();
        let wanted = owed.into_iter().map(|(origin, ranges)| (origin, not_held(&channel, origin, &ranges)));
        let wanted: BTreeMap<Origin, Vec<Range>> = wanted.filter(|(_, ranges)| !ranges.is_empty()).collect();
        let request = |(origin, ranges): (Origin, Vec<Range>)| {
            let to = candidate(&channel.settings().peers, origin.broker, turn)?;
            Some(GapRequest { to, origin, ranges })
        };
        wanted.into_iter().filter_map(request).collect()
    }
}

/// The parts of `ranges` that the buffer does not hold.
fn not_held(channel: &Channel, origin: Origin, ranges: &Ranges) -> Vec<Range> {
    let Some((_, log)) = channel.log_of(origin) else { return ranges.iter().take(MOST_ASKED).collect() };
    let gaps = ranges.iter().flat_map(|range| {
        let held = log.held(range).map(|(sequence, _)| Range { first: sequence, last: sequence });
        held.collect::<Ranges>().gaps(range).collect::<Vec<_>>()
    });
    gaps.take(MOST_ASKED).collect()
}

/// The broker to ask in this turn: at first the origin's, then each of the others.
fn candidate(peers: &[BrokerId], origin: BrokerId, turn: usize) -> Option<BrokerId> {
    let first = peers.iter().filter(|peer| **peer == origin);
    let all = first.chain(peers.iter().filter(|peer| **peer != origin));
    all.copied().nth(turn.checked_rem(peers.len())?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use whimbrel_pubsub::coverage::{ChannelCoverage, Told};
    use whimbrel_pubsub::message::{ChannelId, Draft, Hlc, Message, PartitionId, Stamp};

    use super::super::logging::Durability;
    use super::super::members::Members;
    use super::super::room::ChannelRules;
    use super::*;
    use crate::buffer::Received;
    use crate::durable::{Begin, Next, Reader};
    use crate::roaming;
    use crate::selection::Selection;
    use crate::store::testing::SmallDisk;
    use crate::store::{Log, Most, Position};

    const OWN: Origin = Origin { broker: BrokerId(1), epoch: 7 };
    const OTHER: Origin = Origin { broker: BrokerId(2), epoch: 8 };
    const MIB: usize = 1 << 20;

    fn now(seconds: u64) -> Now {
        Now { time: Time::at(Duration::from_secs(seconds)), wall_ms: 1_700_000_000_000 + 1_000 * seconds }
    }

    /// A durable channel whose buffer holds so many messages, on a disk that is full after the first message of the other broker.
    fn room_on(disk: &SmallDisk, messages: u64) -> Room {
        let mut rules = ChannelRules::all_topics();
        rules.durable.when = Durability::Always;
        rules.settings.peers = vec![OTHER.broker];
        rules.settings.partitions[0].size.messages = messages;
        let room = Room::new(rules, OWN, Arc::<Members>::default(), Time::ZERO);
        room.begin_logging(disk.log(), &BTreeMap::new());
        assert_eq!(receive(&room, 1, 10), Received::Taken);
        until(|| disk.log().end() == Position(1));
        disk.fill();
        room
    }

    fn message(length: usize) -> Message {
        Draft { topic: "t", payload: &vec![7; length], ..Draft::default() }.finish().unwrap()
    }

    fn receive(room: &Room, sequence: u64, length: usize) -> Received {
        let published = Hlc::at(1_700_000_000_000 + sequence);
        let stamp =
            Stamp { origin: OTHER, sequence, partition: PartitionId(0), ordinal: sequence, published };
        room.receive(stamp, message(length), Duration::ZERO, now(0)).unwrap()
    }

    /// The thread of the log takes its time.
    fn until(mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < deadline, "it does not come about");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The sequences that a durable subscription gets that reads the log from its beginning.
    fn durable(log: &Log) -> Vec<u64> {
        let picks = Arc::new(Selection::new("#".parse().unwrap(), None));
        let mut reader = Reader::new(Begin {
            picks,
            is_whole: true,
            acknowledged: ChannelCoverage::default(),
            claimed: ChannelCoverage::default(),
            first: Position(0),
            until: log.end(),
        });
        let mut delivered = Vec::new();
        loop {
            match reader.next(1_700_000_000_000) {
                Next::Told(Told::Delivery(delivery)) => {
                    delivered.push(delivery.stamp.sequence);
                    let coverage = reader.coverage();
                    reader.acknowledge(&coverage).unwrap();
                }
                Next::Told(_) => {}
                Next::Hungry(position) if position < log.end() => {
                    reader.feed(log.read(position, Most::default()).unwrap());
                }
                Next::Hungry(_) | Next::Full => return delivered,
            }
        }
    }

    #[test]
    fn regression_what_waits_for_a_full_disk_comes_to_a_durable_subscription_later() {
        let disk = SmallDisk::new(ChannelId(0));
        let room = room_on(&disk, 1_000);
        (2..=9).for_each(|sequence| assert_eq!(receive(&room, sequence, 10_000), Received::Taken));
        for _ in 0..3 {
            room.catch_up(now(1));
        }
        assert_eq!((durable(&disk.log()), room.logging().owed().count()), (vec![1], 0));
        disk.empty();
        until(|| {
            room.catch_up(now(2));
            disk.log().end() >= Position(9)
        });
        assert_eq!(durable(&disk.log()).into_iter().collect::<BTreeSet<_>>(), (1..=9).collect());
        assert_eq!(disk.log().end(), Position(9), "each is stored once");
    }

    /// Beyond 32 MiB, live subscriptions still get what other brokers publish. The log gets it from the buffer when the disk has room.
    #[test]
    fn regression_beyond_what_waits_for_a_full_disk_live_delivery_goes_on() {
        let disk = SmallDisk::new(ChannelId(0));
        let room = room_on(&disk, 1_000);
        let picks = Arc::new(Selection::new("#".parse().unwrap(), None));
        let wanted = roaming::Wanted { picks, reach: vec![crate::buffer::Reach::Whole] };
        let wish = roaming::Wish {
            wanted,
            from: roaming::From::Live,
            recover: roaming::Recover::First,
            slow: roaming::Slow::Wait,
        };
        let mut live = roaming::Reader::attach(&room.read(), wish, Time::ZERO);
        let mut delivered = Vec::new();
        for sequence in 2..=50 {
            assert_eq!(receive(&room, sequence, MIB), Received::Taken);
            room.catch_up(now(1));
            while let roaming::Read::Told(told) = live.read(&room.read(), now(1).time, true, &mut 100) {
                if let Told::Delivery(delivery) = told {
                    delivered.push(delivery.stamp.sequence);
                }
            }
        }
        assert_eq!(delivered, (2..=50).collect::<Vec<_>>());
        assert!((17..=48).contains(&room.logging().owed().count()), "{}", room.logging().owed().count());
        assert_eq!(durable(&disk.log()), [1]);
        disk.empty();
        until(|| {
            room.catch_up(now(2));
            room.logging().owed().is_empty() && disk.log().end() >= Position(50)
        });
        assert_eq!(durable(&disk.log()).into_iter().collect::<BTreeSet<_>>(), (1..=50).collect());
        assert!(room.poll_fetches(now(100).time).is_empty());
    }

    /// What the buffer has overwritten meanwhile is asked for at another broker, and is not delivered again.
    #[test]
    fn regression_what_the_buffer_lost_while_the_disk_was_full_is_fetched_for_the_log() {
        let disk = SmallDisk::new(ChannelId(0));
        let room = room_on(&disk, 4);
        (2..=50).for_each(|sequence| assert_eq!(receive(&room, sequence, MIB), Received::Taken));
        assert!(room.logging().owed().count() > 4);
        disk.empty();
        let mut seconds = 1;
        until(|| {
            room.catch_up(now(1));
            room.logging().may_pay()
        });
        let arrived = room.read().end();
        until(|| {
            room.catch_up(now(seconds));
            for request in room.poll_fetches(now(seconds).time) {
                seconds += 5;
                assert_eq!((request.to, request.origin), (OTHER.broker, OTHER));
                let sequences = request.ranges.into_iter().flat_map(|range| range.first..=range.last);
                sequences.for_each(|at| assert_eq!(receive(&room, at, MIB), Received::Known));
            }
            room.logging().owed().is_empty()
        });
        assert_eq!(room.read().end(), arrived, "nothing arrives a second time");
        until(|| {
            room.catch_up(now(seconds));
            disk.log().end() >= Position(50)
        });
        assert_eq!(durable(&disk.log()).into_iter().collect::<BTreeSet<_>>(), (1..=50).collect());
    }
}
