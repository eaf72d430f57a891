//! The last values of a channel on disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{ChannelId, Draft, Message};

use crate::Now;
use crate::buffer::{Channel, Restored, RetainedValue};
use crate::store::{Entry, MetaError, Position, Store};

/// Keeps the last values of a channel, if that is wanted.
///
/// Whoever changes the channel has what changed kept before others may change it, so the store has what is here. It is written later, in
/// groups.
#[derive(Debug)]
pub(super) struct LastValues {
    are_wanted: bool,
    /// Where they are kept, since that was opened. It is closed by its owner.
    store: OnceLock<Weak<Store>>,
    /// The end of the log when it was last noted that the values speak for it.
    noted: AtomicU64,
}

/// The state that an earlier run left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Values that were found.
    pub(super) values: usize,
    /// Values that stay on disk, since there is no room for them.
    pub(super) beyond: usize,
}

impl LastValues {
    pub(super) fn new(are_wanted: bool) -> Self {
        Self { are_wanted, store: OnceLock::new(), noted: AtomicU64::new(0) }
    }

    /// Whether they are to be kept.
    pub(super) fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    /// Whether they are to be kept and are not yet.
    pub(super) fn are_waiting(&self) -> bool {
        self.are_wanted && self.store.get().is_none()
    }

    /// Keeps the values of this channel from now on, and takes those that a former run kept.
    pub(super) fn begin(
        &self,
        channel: &mut Channel,
        store: &Arc<Store>,
        now: Now,
    ) -> Result<Found, MetaError> {
        let (meta, id) = (store.meta(), channel.id());
        let mut entries = meta.retained(id)?;
        // Of too many, the newest count.
        entries.sort_unstable_by_key(|entry| entry.stamp.published);
        let surplus = entries.len().saturating_sub(channel.settings().most_retained);
        let mut found = Found { values: entries.len(), beyond: surplus };
        channel.track_values();
        for Entry { stamp, arrived_ms, age, message } in entries.into_iter().skip(surplus) {
            let since = Duration::from_millis(now.wall_ms.saturating_sub(arrived_ms));
            let topic = message.topic_bytes();
            match channel.restore_value(stamp, message, (since, age), now) {
                Restored::Taken => {}
                Restored::Over => meta.release(id, &topic),
                Restored::NoRoom => found.beyond += 1,
            }
        }
        channel.end_restoring();
        self.store.set(Arc::downgrade(store)).ok();
        self.keep(channel, now);
        Ok(found)
    }

    /// Whether a message may become a last value.
    pub(super) fn check(&self, message: &Message) -> Result<(), Refusal> {
        if !message.is_retained() {
            return Ok(());
        }
        let Some(store) = self.store().filter(|store| !store.meta().has_room_for_values()) else {
            return Ok(());
        };
        let trouble = store.meta().trouble().map_or_else(String::new, |trouble| format!(": {trouble}"));
        let why = format_args!("too many last values are waiting to be written{trouble}");
        Err(Refusal::new(RefusalCode::Unavailable, why))
    }

    /// Has the values kept that have changed. Call it before anybody else may change the channel.
    pub(super) fn keep(&self, channel: &mut Channel, now: Now) {
        if !channel.has_changed_values() {
            return;
        }
        let (id, store) = (channel.id(), self.store());
        let changed = channel.take_changed_values();
        // Once the store is closed, nothing is kept any more.
        let Some(store) = store else { return };
        for (topic, value) in changed {
            match value.and_then(|value| entry(&topic, value, now)) {
                Some(entry) => store.meta().retain(id, entry),
                None => store.meta().release(id, &topic),
            }
        }
    }

    /// Notes now and then that the values speak for the log up to its `end`: whenever there are `step` more messages. Call it when all
    /// of them were kept.
    pub(super) fn note_until(&self, channel: ChannelId, end: Position, step: u64) {
        let noted = self.noted.load(Ordering::Relaxed);
        if end.0.saturating_sub(noted) >= step
            && let Some(store) = self.store()
        {
            self.noted.store(end.0, Ordering::Relaxed);
            store.meta().note_values_until(channel, end);
        }
    }

    fn store(&self) -> Option<Arc<Store>> {
        self.store.get()?.upgrade()
    }
}

/// A value as it is kept.
fn entry(topic: &Bytes, value: &RetainedValue, now: Now) -> Option<Entry> {
    let (stamp, arrived_ms, age) = (value.stamp, now.wall_ms, value.age(now.time));
    let message = match value.written(now.time) {
        Some(message) => message.clone(),
        // The memory of one that has ended.
        None => Draft { topic: std::str::from_utf8(topic).ok()?, ..Draft::default() }.finish().ok()?,
    };
    Some(Entry { stamp, arrived_ms, age, message })
}
