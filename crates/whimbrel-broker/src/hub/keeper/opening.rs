//! A start: what the store holds becomes known.

use std::collections::BTreeMap;
use std::sync::Arc;

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
        let must = self.rooms.iter().any(must_store);
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
            let mut log = None;
            if is_wanted {
                let opened =
                    store.log_with(room.id(), room.log_settings()).map_err(|error| error.to_string())?;
                notices.extend(opened.notices().iter().map(ToString::to_string));
                let held = opened.held().map_err(|error| error.to_string())?;
                self.restore(&store, room, &opened, &held).map_err(|error| error.to_string())?;
                log = Some((opened, held));
            }
            // Behind the log: what came last is in its place, and values whose messages the log has no more are older.
            if room.keeps_values() {
                notices.extend(self.begin_values(&store, room)?);
            }
            if let Some((log, held)) = log {
                room.begin_logging(log, &held);
            }
        }
        // Trouble is told by itself.
        store.meta().flush().ok();
        Ok(notices)
    }

    /// Keeps the last values of a channel from now on, and takes those that are in the store. Returns what people should know.
    pub(super) fn begin_values(&self, store: &Arc<Store>, room: &Room) -> Result<Option<String>, String> {
        let found = room.begin_values(store, self.clock.now()).map_err(|error| error.to_string())?;
        if found.values > 0 {
            self.attached().wake_all();
        }
        let beyond = format!(
            "the channel `{}`: {} of {} last values on disk are beyond its limit and stay there: raise `retained`",
            room.name(),
            found.beyond,
            found.values
        );
        Ok((found.beyond > 0).then_some(beyond))
    }

    /// Closes the store: what waits is written. Nothing durable is taken any more.
    pub fn close_store(&self) {
        drop(lock(&self.keeper.store).take());
    }

    /// Fills the buffer with the newest messages of the log, and remembers the others. Messages that came when the last values were not yet
    /// written may be among them.
    fn restore(
        &self,
        store: &Store,
        room: &Room,
        log: &Log,
        held: &BTreeMap<Origin, Ranges>,
    ) -> Result<(), StoreError> {
        let room_for: u64 = room.buffered();
        let end = log.end();
        let values = if room.keeps_values() { store.meta().values_until(room.id()) } else { None };
        let newest = Position(end.0.saturating_sub(room_for));
        let mut next = values.map_or(newest, |until| until.min(newest));
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
            for record in batch.records {
                let is_news = values.is_none_or(|until| record.position >= until);
                room.restore(record.entry, is_news, now);
            }
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

/// Whether a channel cannot be served without a store.
fn must_store(room: &Room) -> bool {
    match room.durability() {
        Durability::Always => true,
        Durability::Never => room.keeps_values(),
        Durability::WhenWanted => false,
    }
}

/// Whether a durable subscription of the channel exists.
pub(super) fn is_wanted(store: &Store, channel: ChannelId) -> bool {
    count(store.meta(), |subscription| subscription.channels.contains(&channel)) > 0
}
