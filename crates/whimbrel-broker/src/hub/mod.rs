//! The core of a running broker, whoever speaks to it: its channels, and the subscriptions that are attached.
//!
//! A [`Hub`] takes messages and wakes the subscriptions that may want them. Each [`Attachment`] reads on its own, from the channels'
//! buffers: nothing is queued for it, so a slow subscriber holds nothing. Gateways turn what it reads into their protocol.

mod alike;
mod attached;
mod attachment;
mod between;
mod clock;
mod group;
mod groups;
mod keeper;
mod links;
mod logging;
mod publishing;
mod register;
mod room;
mod seats;
mod signal;
mod storing;
mod turns;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use whimbrel_pubsub::coverage::ClusterId;
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Hlc, Origin};

pub use alike::{Form, Sink};
pub use attached::ClientId;
pub use attachment::{Attach, Attachment, Progress};
pub use between::{Aged, Outgoing};
pub use clock::Clock;
pub use group::{Receipt, Seat};
pub use keeper::{
    AttachDurable, DurableAttachment, DurableReport, KeptSession, LogReport, MOST_OF_CLIENT, SessionName,
    StorePlace,
};
pub use logging::{Durability, DurableRules};
pub use publishing::Finding;
pub(crate) use register::Rate;
pub use register::{
    Change, Client, Flow, LOOK, Promise, PublisherRecord, Publishing, Register, SubscriberRecord, Sums,
};
pub use room::{ChannelRules, RoomReport};
pub use seats::UserId;
pub use storing::{NotTaken, Storing};
pub use turns::Turns;

use crate::matching::{Limits, Table};
use alike::Kinds;
use attached::Attached;
use groups::Groups;
use keeper::Keeper;
use links::Links;
use room::Room;

/// The identity of a broker.
#[derive(Clone, Debug)]
pub struct BrokerName {
    /// The cluster.
    pub cluster: ClusterId,
    /// The broker.
    pub broker: BrokerId,
    /// Its human-readable name.
    pub name: String,
}

/// The channels of a broker, and who is attached.
#[derive(Debug)]
pub struct Hub {
    name: BrokerName,
    clock: Clock,
    rooms: Vec<Room>,
    /// Finds the subscriptions that a message wakes.
    table: RwLock<Table>,
    attached: Mutex<Attached>,
    kinds: Mutex<Kinds>,
    turns: Turns,
    links: Mutex<Links>,
    register: Register,
    groups: Groups,
    keeper: Keeper,
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
        let rooms = channels.into_iter().map(|rules| Room::new(rules, own, clock.now().time)).collect();
        let table = RwLock::new(Table::new(limits));
        let turns = Turns::default();
        let (attached, kinds, links) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (register, groups, keeper) = (Register::default(), Groups::default(), Keeper::new(place));
        Arc::new(Self { name, clock, rooms, table, attached, kinds, turns, links, register, groups, keeper })
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

    /// Does what is due without anybody's doing: lifetimes end, and messages become too old. Call it several times a second.
    pub fn tick(&self) {
        let now = self.clock.now();
        self.rooms.iter().for_each(|room| room.expire(now.time));
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

    /// Looks at how all clients get on. Call it every [`LOOK`]. Returns what has changed.
    pub fn look(&self) -> Vec<Change> {
        let ends = self.rooms.iter().map(|room| (room.id(), room.read().end()));
        self.register.look(self.clock.time(), ends.collect())
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

    fn room_of(&self, topic: &str) -> Result<&Room, Refusal> {
        self.rooms.iter().find(|room| room.has(topic)).ok_or_else(|| {
            Refusal::new(
                RefusalCode::Mistake,
                format_args!("no channel of this broker has the topic `{topic}`"),
            )
        })
    }

    fn room(&self, channel: ChannelId) -> Option<&Room> {
        self.rooms.iter().find(|room| room.id() == channel)
    }

    fn table(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> std::sync::RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn kinds(&self) -> std::sync::MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> std::sync::MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attached(&self) -> std::sync::MutexGuard<'_, Attached> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A random number. A system that has none has no sessions either.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).ok();
    u64::from_le_bytes(bytes)
}
