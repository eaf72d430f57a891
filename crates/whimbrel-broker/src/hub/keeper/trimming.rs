//! The removal of what nobody needs any more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::message::Origin;

use super::super::core::Hub;
use super::super::logging::Durability;
use super::super::room::Room;
use super::opening::is_wanted;
use crate::locking::lock;
use crate::store::{Store, StoreError, Trimmed};

impl Hub {
    /// The time between two looks for segments that nobody needs, and between two reports of coverage to other brokers.
    pub const TRIM_EVERY: Duration = Duration::from_secs(1);

    /// Looks after the store for as long as the hub lives. `note` tells people what they should know.
    pub async fn look_after_store(self: Arc<Self>, note: impl Fn(String)) {
        let mut interval = tokio::time::interval(Self::TRIM_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut former = String::new();
        loop {
            interval.tick().await;
            let covered = std::mem::take(&mut *lock(&self.keeper.covered));
            self.sharers.tell_coverage(&covered);
            let hub = Arc::clone(&self);
            let Ok(told) = tokio::task::spawn_blocking(move || hub.trim()).await else { continue };
            // The same is not told again and again.
            if !told.is_empty() && told != former {
                note(told.clone());
            }
            former = told;
        }
    }

    /// Removes what nobody needs, or what is beyond a limit. Returns what people should know.
    fn trim(&self) -> String {
        let mut told = self.keep_values();
        let Some(store) = self.keeper.opened() else { return told.join("; ") };
        told.extend(store.meta().expire(self.clock.now().wall_ms).err().map(|error| error.to_string()));
        told.extend(self.end_sessions(&store).err().map(|error| error.to_string()));
        for room in &self.rooms {
            let Some(log) = room.logging().log() else { continue };
            told.extend(log.refusal().map(|refusal| format!("the channel `{}`: {refusal}", room.name())));
            match self.trim_log(&store, room) {
                Ok(Trimmed { uncovered: 0, .. }) => {}
                Ok(Trimmed { uncovered, .. }) => told.push(format!(
                    "the channel `{}`: {uncovered} messages that a durable subscription had not received were removed by a limit",
                    room.name()
                )),
                Err(error) => told.push(error.to_string()),
            }
            if room.durability() == Durability::WhenWanted {
                let _one = lock(&self.keeper.changing);
                if !is_wanted(&store, room.id()) {
                    room.end_logging();
                }
            }
        }
        told.extend(store.meta().trouble().map(|error| error.to_string()));
        told.join("; ")
    }

    /// Begins to keep last values where they could not be kept at the start: the store is made for the first that there is.
    fn keep_values(&self) -> Vec<String> {
        let is_open = self.keeper.opened().is_some();
        if !is_open && self.keeper.place.folder.is_err() {
            return Vec::new();
        }
        let waiting = self.rooms.iter().filter(|room| room.has_values_waiting());
        let waiting = waiting.filter(|room| is_open || !room.read().retained().is_empty());
        let begin = |room: &Room| self.keeper.store().and_then(|store| self.begin_values(&store, room));
        let told = waiting.map(|room| {
            let failed =
                |why| Some(format!("the channel `{}`: last values are not kept: {why}", room.name()));
            begin(room).unwrap_or_else(failed)
        });
        told.flatten().collect()
    }

    fn trim_log(&self, store: &Store, room: &Room) -> Result<Trimmed, StoreError> {
        let Some(log) = room.logging().log() else { return Ok(Trimmed::default()) };
        // A subscription that is not known here may want what nobody else does.
        if !self.members.know(&room.configured_peers()) {
            return Ok(Trimmed::default());
        }
        // What coverage says then survives the messages. Trouble is told by itself.
        if store.meta().flush().is_err() {
            return Ok(Trimmed::default());
        }
        let (channel, highest) = (room.id(), RefCell::new(BTreeMap::<Origin, u64>::new()));
        let trimmed = log.trim(self.clock.now().wall_ms, |origin, range| {
            let mut highest = highest.borrow_mut();
            let known = highest.entry(origin).or_default();
            *known = range.last.max(*known);
            store.meta().uncovered(channel, origin, range)
        });
        for (origin, highest) in highest.into_inner() {
            store.meta().see(channel, origin, highest).ok();
        }
        trimmed
    }
}
