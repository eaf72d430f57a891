//! A start: what the store holds becomes known.

use std::collections::BTreeMap;

use whimbrel_pubsub::coverage::Ranges;
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::super::core::Hub;
use super::super::logging::Durability;
use super::super::room::Room;
use super::count::count;
use super::sessions::leave_all;
use crate::locking::lock;
use crate::store::{Log, Most, Position, Store, StoreError};

impl Hub {
    /// Opens the store, if there is one or a channel needs it, and fills the buffers of durable channels from their logs. Returns notices
    /// for people. Call it before anything is published. It may take a while.
    ///
    /// # Errors
    /// A file is damaged or cannot be used, and something that was promised depends on it.
    pub fn open_store(&self) -> Result<Vec<String>, String> {
        let must = self.rooms.iter().any(|room| room.durability() == Durability::Always);
        let folder = match &self.keeper.place.folder {
            Ok(folder) => folder,
            Err(why) if must => return Err(why.clone()),
            Err(_) => return Ok(Vec::new()),
        };
        // Whoever needs nothing on disk leaves nothing there.
        if !must && !folder.join("meta.redb").exists() {
            return Ok(Vec::new());
        }
        let store = match self.keeper.store() {
            Ok(store) => store,
            Err(why) if must => return Err(why),
            Err(why) => return Ok(vec![format!("there are no durable subscriptions: {why}")]),
        };
        leave_all(&store, self.clock.now().wall_ms).map_err(|error| error.to_string())?;
        let mut notices = Vec::new();
        for room in &self.rooms {
            let is_wanted = match room.durability() {
                Durability::Never => false,
                Durability::Always => true,
                Durability::WhenWanted => is_wanted(&store, room.id()),
            };
            if is_wanted {
                let log =
                    store.log_with(room.id(), room.log_settings()).map_err(|error| error.to_string())?;
                notices.extend(log.notices().iter().map(ToString::to_string));
                let held = log.held().map_err(|error| error.to_string())?;
                self.restore(&store, room, &log, &held).map_err(|error| error.to_string())?;
                room.begin_logging(log, &held);
            }
        }
        Ok(notices)
    }

    /// Closes the store: what waits is written. Nothing durable is taken any more.
    pub fn close_store(&self) {
        drop(lock(&self.keeper.store).take());
    }

    /// Fills the buffer with the newest messages of the log, and remembers the others.
    fn restore(
        &self,
        store: &Store,
        room: &Room,
        log: &Log,
        held: &BTreeMap<Origin, Ranges>,
    ) -> Result<(), StoreError> {
        let room_for: u64 = room.buffered();
        let end = log.end();
        let mut next = Position(end.0.saturating_sub(room_for));
        while next < end {
            let batch = match log.read(next, Most::default()) {
                Ok(batch) => batch,
                Err(StoreError::Damaged(damage)) if damage.resume.is_some_and(|resume| resume > next) => {
                    next = damage.resume.unwrap_or(end);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if batch.records.is_empty() {
                break;
            }
            next = batch.next;
            let now = self.clock.now();
            batch.records.into_iter().for_each(|record| room.restore(record.entry, now));
        }
        let now = self.clock.time();
        for (origin, ranges) in held {
            room.write().remember(*origin, ranges, now);
            // Too many origins cost only the count of what is gone.
            store.meta().see(room.id(), *origin, ranges.highest()).ok();
        }
        if room.is_alone() {
            // Of a run that ended, nothing is left to be delivered. Nobody else has any of it.
            let ended = store.meta().seen(room.id()).into_iter();
            for (origin, _) in ended.filter(|(origin, _)| !held.contains_key(origin)) {
                store.meta().forget(room.id(), origin).ok();
            }
        }
        Ok(())
    }
}

/// Whether a durable subscription of the channel exists.
pub(super) fn is_wanted(store: &Store, channel: ChannelId) -> bool {
    count(store.meta(), |subscription| subscription.channels.contains(&channel)) > 0
}
