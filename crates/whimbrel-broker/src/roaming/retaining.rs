//! The last values of topics, for a subscription that comes.

use whimbrel_pubsub::coverage::{Cover, Delivery, Range, Ranges, Told};
use whimbrel_pubsub::message::{Message, Stamp};

use super::reader::Reader;
use crate::Time;
use crate::buffer::Channel;

impl Reader {
    /// Looks at the next value.
    pub(super) fn walk_on(&mut self, channel: &Channel, now: Time) {
        let Some(mut walk) = self.walk.take() else { return };
        let Some((topic, value)) = channel.retained().after(walk.after.as_ref()) else {
            // What was settled from the start is told behind the values, which it covers.
            self.tell_covers(channel);
            return;
        };
        walk.after = Some(topic.clone());
        if let Some(message) = value.message(now).filter(|message| self.wanted.picks.picks(message)) {
            self.retain(channel, value.stamp, message.clone(), walk.all);
        }
        self.walk = Some(walk);
    }

    fn retain(&mut self, channel: &Channel, stamp: Stamp, message: Message, all: bool) {
        let range = Range { first: stamp.sequence, last: stamp.sequence };
        let Some((index, _)) = channel.log_of(stamp.origin) else {
            // The run is known by nothing but this.
            let is_covered = |covered: &Ranges| covered.contains(stamp.sequence);
            if all || !self.strangers.get(&stamp.origin).is_some_and(is_covered) {
                self.tell_value(stamp, message, range);
            }
            return;
        };
        let reading = self.reading(channel, index);
        if !reading.covered.contains(stamp.sequence) {
            // What is held is read in its turn.
            if channel.find(stamp.origin, stamp.sequence).is_some() {
                return;
            }
            self.settle(index, stamp.origin, range);
        } else if !all {
            return;
        }
        self.tell_value(stamp, message, range);
    }

    fn tell_value(&mut self, stamp: Stamp, message: Message, range: Range) {
        let cover = Cover { origin: stamp.origin, range };
        let delivery = Delivery { cover, stamp, message, recovered: true, late: false, retained: true };
        self.notices.push_back(Told::Delivery(delivery));
    }
}
