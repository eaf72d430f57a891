//! The hub: what it consists of, and how it begins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use whimbrel_pubsub::frame::Refusal;
use whimbrel_pubsub::message::{ChannelId, Hlc, Origin};

use super::alike::Kinds;
use super::attached::Attached;
use super::broker_name::BrokerName;
use super::clock::Clock;
use super::errands::Errands;
use super::groups::Groups;
use super::keeper::core::Keeper;
use super::keeper::store_place::StorePlace;
use super::links::Links;
use super::members::Members;
use super::random::random;
use super::regions::Regions;
use super::register::{Change, Register};
use super::room::{ChannelRules, Room, RoomReport};
use super::sharers::Sharers;
use super::turns::Turns;
use crate::matching::{Limits, Table};

/// The channels of a broker, and who is attached.
#[derive(Debug)]
pub struct Hub {
    pub(super) name: BrokerName,
    pub(super) clock: Clock,
    pub(super) rooms: Vec<Room>,
    /// Finds the subscriptions that a message wakes.
    pub(super) table: RwLock<Table>,
    pub(super) attached: Mutex<Attached>,
    pub(super) kinds: Mutex<Kinds>,
    pub(super) turns: Turns,
    pub(super) links: Mutex<Links>,
    pub(super) regions: Regions,
    pub(super) register: Register,
    pub(super) groups: Groups,
    pub(super) keeper: Keeper,
    pub(super) members: Arc<Members>,
    pub(super) sharers: Sharers,
    pub(super) errands: Errands,
}

impl Hub {
    /// A broker with these channels. A message belongs to the first whose filters match its topic; one that no channel has is refused.
    /// It keeps nothing on disk.
    pub fn new(name: BrokerName, channels: Vec<ChannelRules>, limits: Limits) -> Arc<Self> {
        Self::with_store(name, channels, limits, StorePlace::nowhere())
    }

    /// A broker with these channels, which keeps durable ones at `place`. [`Hub::open_store`] opens what is there.
    pub fn with_store(
        name: BrokerName,
        channels: Vec<ChannelRules>,
        limits: Limits,
        place: StorePlace,
    ) -> Arc<Self> {
        let own = Origin { broker: name.broker, epoch: random() };
        let clock = Clock::start();
        let members = Arc::<Members>::default();
        let room = |rules| Room::new(rules, own, Arc::clone(&members), clock.now().time);
        let rooms = channels.into_iter().map(room).collect();
        let table = RwLock::new(Table::new(limits));
        let turns = Turns::default();
        let (attached, kinds, links) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (register, groups, keeper) = (Register::default(), Groups::default(), Keeper::new(place));
        let (sharers, errands, regions) = (Sharers::default(), Errands::default(), Regions::default());
        Arc::new(Self {
            name,
            clock,
            rooms,
            table,
            attached,
            kinds,
            turns,
            links,
            regions,
            register,
            groups,
            keeper,
            members,
            sharers,
            errands,
        })
    }

    /// Returns the identity of this broker.
    pub fn name(&self) -> &BrokerName {
        &self.name
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Has the next messages of all channels published after `former`.
    pub fn follow(&self, former: Hlc) {
        let now = self.clock.now();
        self.rooms.iter().for_each(|room| room.follow(former, now));
    }

    /// Does what is due without anybody's doing: lifetimes end, messages become too old, and a disk that was full has room. Call it several
    /// times a second.
    pub fn tick(&self) {
        let now = self.clock.now();
        for room in &self.rooms {
            room.expire(now);
            room.catch_up(now);
        }
    }

    /// The time between two calls of [`Hub::tick`].
    pub const TICK: Duration = Duration::from_millis(100);

    /// The turns in which recoveries read.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The clients as those who run the broker see them.
    pub fn register(&self) -> &Register {
        &self.register
    }

    /// Checks the progress of all clients. Call it every [`LOOK`](super::LOOK). Returns what has changed.
    pub fn look(&self) -> Vec<Change> {
        self.register.look(self.clock.time(), self.ends())
    }

    /// Returns the end of each channel: the number of messages that have arrived.
    pub fn ends(&self) -> BTreeMap<ChannelId, u64> {
        self.rooms.iter().map(|room| (room.id(), room.read().end())).collect()
    }

    /// Returns a report on each channel.
    pub fn report(&self) -> Vec<RoomReport> {
        let now = self.clock.time();
        self.rooms.iter().map(|room| room.report(now)).collect()
    }

    /// The number of subscriptions that are attached.
    pub fn subscriptions(&self) -> usize {
        self.table().len()
    }

    pub(super) fn room_of(&self, topic: &str) -> Result<&Room, Refusal> {
        self.rooms.iter().find(|room| room.has(topic)).ok_or_else(|| self.no_channel_for_topic(topic))
    }

    pub(super) fn room(&self, channel: ChannelId) -> Option<&Room> {
        self.rooms.iter().find(|room| room.id() == channel)
    }

    pub(super) fn table(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn table_mut(&self) -> std::sync::RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kinds(&self) -> std::sync::MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn links(&self) -> std::sync::MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn attached(&self) -> std::sync::MutexGuard<'_, Attached> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
