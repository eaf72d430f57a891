//! The outgoing datagrams: a lane for each manner in use, in which small ones may wait for others to travel with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::connector::{Link, Messages};
use crate::protocol::{Cap, Datagram, Gathered, MOST_GATHERED, MOST_PARTS, Manner};
use crate::relay::bond::Bond;
use crate::relay::gathering::LONGEST_GATHER;

/// The most manners whose lanes are kept.
const MOST_MANNERS: usize = 64;
/// The most groups of datagrams that have a cap. The transport never forgets one.
const MOST_GROUPS: usize = 256;
/// Bytes of a packet that are left to what is around a message.
const AROUND: usize = 32;

/// The lanes of a session.
#[derive(Debug)]
pub(super) struct Lanes {
    link: Link,
    bond: Arc<Bond>,
    plain: Messages,
    all: Mutex<LaneTable>,
}

#[derive(Debug, Default)]
struct LaneTable {
    lanes: HashMap<Manner, Lane>,
    /// The rates of groups, in bytes per second.
    caps: HashMap<u64, u64>,
}

#[derive(Debug)]
struct Lane {
    sender: Messages,
    gathered: Gathered,
    /// Whether what was gathered will be sent soon.
    is_timed: bool,
}

impl Lane {
    /// Sends what was gathered. A full queue loses it, as a router would.
    fn flush(&mut self) {
        if let Some(message) = self.gathered.take() {
            self.sender.try_send(message);
        }
    }

    fn send(&mut self, message: Bytes) {
        self.flush();
        self.sender.try_send(message);
    }
}

impl Lanes {
    pub(super) fn new(link: Link, bond: Arc<Bond>) -> Self {
        let plain = link.datagrams(Manner::default());
        Self { link, bond, plain, all: Mutex::default() }
    }

    /// Sends a message with a datagram in this manner, soon. A full queue loses it, as a router would.
    pub(super) fn send(self: &Arc<Self>, manner: Manner, message: &Datagram) {
        let bytes = message.to_bytes();
        let manner = Manner { compression: None, ..manner };
        if manner == Manner::default() {
            self.plain.try_send(bytes);
            return;
        }
        let mut table = self.lock();
        if let Some(cap) = manner.cap
            && !self.keeps(&mut table, cap)
        {
            return;
        }
        let lane = table.lane(manner, &self.link);
        let can_wait = matches!(message, Datagram::Plain(..)) && bytes.len() <= MOST_GATHERED;
        match manner.gather.filter(|_| can_wait && self.bond.peer().gathered) {
            Some(wait) => self.gather(lane, manner, &bytes, wait.min(LONGEST_GATHER)),
            None => lane.send(bytes),
        }
    }

    fn gather(self: &Arc<Self>, lane: &mut Lane, manner: Manner, message: &[u8], wait: Duration) {
        let room = self.link.max_unfragmented().saturating_sub(AROUND);
        if lane.gathered.length() + message.len() > room || lane.gathered.count() >= MOST_PARTS {
            lane.flush();
        }
        lane.gathered.add(message);
        if !lane.is_timed {
            lane.is_timed = true;
            let this = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                this.on_due(manner);
            });
        }
    }

    fn on_due(&self, manner: Manner) {
        // A lane that made room for others was flushed.
        if let Some(lane) = self.lock().lanes.get_mut(&manner) {
            lane.is_timed = false;
            lane.flush();
        }
    }

    /// Returns whether the transport keeps this cap.
    fn keeps(&self, table: &mut LaneTable, cap: Cap) -> bool {
        let known = table.caps.get(&cap.group);
        if known == Some(&cap.rate) {
            return true;
        }
        let has_room = known.is_some() || table.caps.len() < MOST_GROUPS;
        let keeps = has_room && self.link.keeps(cap);
        if keeps {
            table.caps.insert(cap.group, cap.rate);
        }
        keeps
    }

    fn lock(&self) -> MutexGuard<'_, LaneTable> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneTable {
    fn lane(&mut self, manner: Manner, link: &Link) -> &mut Lane {
        if self.lanes.len() >= MOST_MANNERS && !self.lanes.contains_key(&manner) {
            self.lanes.drain().for_each(|(_, mut lane)| lane.flush());
        }
        let new = || Lane { sender: link.datagrams(manner), gathered: Gathered::default(), is_timed: false };
        self.lanes.entry(manner).or_insert_with(new)
    }
}
