//! Slots that are emptied.

use whimbrel_pubsub::message::{PartitionId, Stamp};

use super::channel::Channel;
use super::origin_log::OriginLog;
use super::places::SlotId;
use super::refusal::Refusal;
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
    /// There were too many runs of its broker.
    GivenUp,
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

    /// Gives up the messages of another run, so that one whose first message has this stamp gets a place. That is the run of the broker with the
    /// most whose newest message was published first: brokers that hold the same give up the same.
    ///
    /// # Errors
    /// The new run would have to give way itself.
    pub(super) fn give_up_for(&mut self, stamp: &Stamp) -> Result<(), Refusal> {
        let newest = |log: &OriginLog| {
            let slot = log.held.last_key_value().and_then(|(_, slot)| self.slot(*slot));
            slot.map(|slot| slot.stamp.published)
        };
        let broker = stamp.origin.broker;
        let given_up =
            self.origins.to_give_up(broker, &self.settings, newest).ok_or(Refusal::TooManyOrigins)?;
        if given_up.origin.broker == broker && newest(given_up) >= Some(stamp.published) {
            return Err(Refusal::TooManyOrigins);
        }
        let slots: Vec<_> = given_up.held.values().copied().collect();
        slots.into_iter().for_each(|slot| self.release(slot, Why::GivenUp));
        self.runs_given_up += 1;
        Ok(())
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
        if matches!(why, Why::TooOld | Why::GivenUp) {
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
