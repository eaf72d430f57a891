//! Slots that are emptied.

use whimbrel_pubsub::message::PartitionId;

use super::channel::Channel;
use super::places::SlotId;
use crate::Time;

/// Why a slot is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The partition was full.
    Overwritten,
    /// The partition holds nothing as old.
    TooOld,
    /// The message's lifetime ended.
    Expired,
}

impl Channel {
    /// Empties slots whose time has come. Publishing and receiving do that, too; call it now and then.
    pub fn expire(&mut self, now: Time) {
        while let Some((end, slot)) = self.ends.first().copied()
            && end <= now
        {
            let expired = self.slot(slot).is_some_and(|slot| slot.is_expired(now));
            self.release(slot, if expired { Why::Expired } else { Why::TooOld });
        }
        self.retained.expire(self.settings.removed_for, now);
    }

    /// Empties slots until the partition has room.
    pub(super) fn overwrite(&mut self, partition: PartitionId, now: Time) {
        while let Some(slot) = self.partitions[usize::from(partition.0)].give_way(now) {
            self.release(slot, Why::Overwritten);
        }
    }

    fn release(&mut self, id: SlotId, why: Why) {
        let Some(slot) = self.slots.remove(id) else { return };
        if let Some(end) = slot.ends() {
            self.ends.remove(&(end, id));
        }
        self.arrivals.remove(slot.arrival);
        self.newest.remove(&slot.message, id);
        let partition = &mut self.partitions[usize::from(slot.stamp.partition.0)];
        partition.release(&slot.facts, why == Why::Overwritten);
        if why == Why::TooOld {
            partition.overwritten += 1;
        }
        if let Some(log) = self.origins.at_mut(slot.log) {
            log.held.remove(&slot.stamp.sequence);
            if why == Why::Expired {
                log.tally.expire(slot.stamp.sequence);
            }
        }
    }
}
