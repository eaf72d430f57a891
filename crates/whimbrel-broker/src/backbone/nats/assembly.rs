//! Puts frames together that came in parts.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use whimbrel_pubsub::message::{BrokerId, Origin};

use super::envelope::{Content, LONGEST_FRAME};

/// The most bytes of frames that are not whole yet. Beyond, frames of the broker that has the most are given up: their messages are asked
/// for again.
const MOST_BYTES: usize = 4 * LONGEST_FRAME;
/// The most frames that are not whole yet. Beyond, one is given up of the broker that has the most, the one that waits longest for its next
/// part.
const MOST_FRAMES: usize = 256;

/// The frames of which parts came. A frame's parts come in order, between those of other frames.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    open: BTreeMap<(Origin, u64), Open>,
    bytes: usize,
    /// The number of parts that came.
    parts: u64,
}

#[derive(Debug)]
struct Open {
    length: usize,
    bytes: BytesMut,
    /// The number of the part that came last.
    latest: u64,
}

impl Assembly {
    /// Takes what came from a broker. Returns a frame that is whole.
    pub(super) fn take(&mut self, from: Origin, content: Content) -> Option<Bytes> {
        let (number, begin, length, bytes) = match content {
            Content::Whole(frame) => return Some(frame),
            Content::Part { number, begin, length, bytes } => (number, begin, length, bytes),
        };
        let name = (from, number);
        if begin == 0 {
            self.remove(name);
            self.open.insert(name, Open { length, bytes: BytesMut::new(), latest: 0 });
        }
        let open = self.open.get_mut(&name)?;
        if (open.length, open.bytes.len()) != (length, begin) {
            // A part was lost, and with it the frame.
            self.remove(name);
            return None;
        }
        self.parts += 1;
        open.latest = self.parts;
        open.bytes.extend_from_slice(&bytes);
        self.bytes += bytes.len();
        if open.bytes.len() == length {
            return self.remove(name).map(|open| open.bytes.freeze());
        }
        while self.bytes > MOST_BYTES {
            self.give_up_one(|open| open.bytes.len() + 1);
        }
        while self.open.len() > MOST_FRAMES {
            self.give_up_one(|_| 1);
        }
        None
    }

    /// Forgets what a broker began to send.
    pub(super) fn forget(&mut self, broker: BrokerId) {
        let names: Vec<_> = self.open.keys().filter(|(from, _)| from.broker == broker).copied().collect();
        names.into_iter().for_each(|name| drop(self.remove(name)));
    }

    fn remove(&mut self, name: (Origin, u64)) -> Option<Open> {
        let open = self.open.remove(&name)?;
        self.bytes -= open.bytes.len();
        Some(open)
    }

    /// Gives up the frame that waits longest for its next part, of those of the brokers that have the most.
    fn give_up_one(&mut self, weight: impl Fn(&Open) -> usize) {
        let mut held = BTreeMap::<BrokerId, usize>::new();
        for ((from, _), open) in &self.open {
            *held.entry(from.broker).or_default() += weight(open);
        }
        let most = held.values().max().copied();
        let theirs = self.open.iter().filter(|((from, _), _)| held.get(&from.broker).copied() == most);
        let oldest = theirs.min_by_key(|(_, open)| open.latest).map(|(name, _)| *name);
        oldest.map(|name| self.remove(name));
    }
}

#[cfg(test)]
mod tests {
    use super::super::envelope::{Envelope, seal};
    use super::*;

    fn run(broker: u64) -> Origin {
        Origin { broker: BrokerId(broker), epoch: 1 }
    }

    #[test]
    fn a_frame_without_one_of_its_parts_is_given_up_and_the_next_is_whole() {
        let frame = Bytes::from(vec![5; 3_000]);
        let parts = |number| seal(run(1), &frame, number, 1_024);
        let mut assembly = Assembly::default();
        let mut came = 0;
        for (at, part) in parts(1).iter().enumerate().chain(parts(2).iter().map(|part| (9, part))) {
            if at != 1 {
                let content = Envelope::open(part).unwrap().content;
                came += usize::from(assembly.take(run(1), content).is_some());
            }
        }
        assert_eq!(came, 1);
        assert!(assembly.open.is_empty() && assembly.bytes == 0);
    }

    #[test]
    fn what_is_never_finished_is_bounded_and_harms_its_own_sender() {
        let mut assembly = Assembly::default();
        let part = |number, begin, length, bytes: &Bytes| Content::Part {
            number,
            begin,
            length,
            bytes: bytes.clone(),
        };
        let small = Bytes::from(vec![1; 500]);
        assert_eq!(assembly.take(run(1), part(1, 0, 1_000, &small)), None);
        let large = Bytes::from(vec![0; 1 << 20]);
        for number in 0..1_000 {
            assembly.take(run(2), part(number, 0, LONGEST_FRAME, &large));
            assert!(assembly.bytes <= MOST_BYTES && assembly.open.len() <= MOST_FRAMES);
        }
        for number in 0..1_000 {
            assembly.take(run(2), part(number, 0, LONGEST_FRAME, &small));
        }
        assert_eq!(assembly.take(run(1), part(1, 500, 1_000, &small)).map(|frame| frame.len()), Some(1_000));
        assembly.forget(BrokerId(2));
        assert!(assembly.open.is_empty() && assembly.bytes == 0);
    }

    /// Brokers can be invented by anybody who may publish to NATS. A frame that goes on coming is put together all the same.
    #[test]
    fn frames_that_others_began_and_left_give_way() {
        let mut assembly = Assembly::default();
        for broker in 10..10 + MOST_FRAMES as u64 {
            let content = Content::Part { number: 1, begin: 0, length: 2, bytes: Bytes::from_static(b"x") };
            assert_eq!(assembly.take(run(broker), content), None);
        }
        let frame = Bytes::from(vec![5; 200 << 10]);
        let parts = seal(run(1), &frame, 1, 64 << 10);
        assert!(parts.len() > 2);
        let mut came = parts.iter().map(|part| assembly.take(run(1), Envelope::open(part).unwrap().content));
        assert_eq!(came.find_map(|frame| frame), Some(frame));
        assert!(assembly.open.len() < MOST_FRAMES);
    }
}
