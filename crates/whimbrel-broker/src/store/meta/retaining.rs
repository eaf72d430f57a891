//! The last values of channels.

use whimbrel_pubsub::message::ChannelId;

use super::core::Meta;
use super::error::MetaError;
use super::limits::MOST_UNWRITTEN;
use crate::store::format::Entry;
use crate::store::position::Position;

impl Meta {
    /// Keeps the last value of its topic; written later. One without a payload is the memory that the value was removed, and one that is not to
    /// be retained the memory of one that ended. The caller decides which is the last, bounds their number, and looks whether there
    /// [is room](Self::has_room_for_values).
    pub fn retain(&self, channel: ChannelId, entry: Entry) {
        let topic = entry.message.topic_bytes();
        self.writer.state().values.change(channel, &topic, Some(entry));
        self.writer.write_later();
    }

    /// Forgets the last value of a topic; written later.
    pub fn release(&self, channel: ChannelId, topic: &[u8]) {
        self.writer.state().values.change(channel, topic, None);
        self.writer.write_later();
    }

    /// Returns whether few enough values wait to be written. More do only while the disk takes nothing.
    pub fn has_room_for_values(&self) -> bool {
        self.writer.state().values.unwritten() < MOST_UNWRITTEN
    }

    /// Returns the last values of a channel, for a start.
    ///
    /// # Errors
    /// They cannot be written or read.
    pub fn retained(&self, channel: ChannelId) -> Result<Vec<Entry>, MetaError> {
        self.flush()?;
        self.writer.retained(channel)
    }

    /// Notes that the last values speak for all that stands before `end` in the channel's log; written later, behind these values.
    pub fn note_values_until(&self, channel: ChannelId, end: Position) {
        self.writer.state().values.mark(channel, end.0);
        self.writer.write_later();
    }

    /// Returns the position up to which the last values cover the channel's log. `None`: it was never recorded.
    pub fn values_until(&self, channel: ChannelId) -> Option<Position> {
        self.writer.state().values.marked(channel).map(Position)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::store::testing::{Folder, entry, origin};

    /// Longer than a test: nothing is written late by itself.
    const NEVER: Duration = Duration::from_secs(3_600);
    const CHANNEL: ChannelId = ChannelId(3);

    #[test]
    fn a_crash_leaves_the_values_of_one_moment_and_the_mark_that_speaks_for_them() {
        let (folder, copy) = (Folder::new("meta-values"), Folder::new("meta-values-copy"));
        let (file, copied) = (folder.0.join("meta.redb"), copy.0.join("meta.redb"));
        let meta = Meta::open(&file, NEVER).unwrap();
        // As a crash leaves it: the file as it is now.
        let crash = || {
            fs::copy(&file, &copied).unwrap();
            let meta = Meta::open(&copied, NEVER).unwrap();
            (meta.retained(CHANNEL).unwrap(), meta.values_until(CHANNEL))
        };
        meta.retain(CHANNEL, entry(origin(1), 1, 10));
        meta.note_values_until(CHANNEL, Position(7));
        assert_eq!(crash(), (vec![], None), "both are late");
        meta.flush().unwrap();
        assert_eq!(crash(), (vec![entry(origin(1), 1, 10)], Some(Position(7))));
        meta.retain(CHANNEL, entry(origin(1), 2, 10));
        meta.retain(CHANNEL, entry(origin(1), 3, 10));
        meta.release(ChannelId(4), b"t/u");
        assert_eq!(crash().0, [entry(origin(1), 1, 10)]);
        meta.flush().unwrap();
        assert_eq!(crash().0, [entry(origin(1), 3, 10)]);
        meta.release(CHANNEL, b"t/u");
        meta.note_values_until(CHANNEL, Position(9));
        drop(meta);
        let meta = Meta::open(&file, NEVER).unwrap();
        assert_eq!(
            (meta.retained(CHANNEL).unwrap(), meta.values_until(CHANNEL)),
            (vec![], Some(Position(9)))
        );
    }
}
