//! A durable subscription comes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use whimbrel_pubsub::coverage::{ChannelCoverage, Coverage, Range};
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};
use whimbrel_pubsub::topic::TopicFilter;

use super::super::broker_name::broker_text;
use super::super::core::Hub;
use super::super::logging::Durability;
use super::super::random::random;
use super::super::room::Room;
use super::attachment::{DurableAttachment, Part};
use super::count::count;
use super::names::name_of;
use super::place::Place;
use super::presence::Served;
use super::refusals::{refusal, unavailable};
use super::removed::removed;
use super::session_name::is_of_session;
use super::sessions::has_room;
use crate::buffer::Reach;
use crate::durable::{Begin, Known, Life, Reader};
use crate::locking::lock;
use crate::selection::Selection;
use crate::store::{DurableSubscription, Log, Meta, MetaError, Store, SubscriptionName};

/// The most durable subscriptions of one client.
pub const MOST_OF_CLIENT: usize = 100;
/// How long is waited for other brokers, twice at most: until they tell what they know, and until they confirm.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request to attach a durable subscription.
#[derive(Clone, Debug)]
pub struct AttachDurable {
    /// The client's key.
    pub owner: Vec<u8>,
    /// The client's name for it.
    pub name: String,
    /// The number of times it was attached, this time included. 0: once more than is known.
    pub generation: u64,
    /// The messages that the subscriber has.
    pub coverage: Coverage,
    /// Its filter and selector.
    pub selection: Selection,
}

/// A subscription that is kept, and that nothing is read for yet.
pub(super) struct Kept {
    place: Place,
    served: Served,
    logs: Vec<(ChannelId, Log)>,
}

impl Hub {
    /// Attaches a durable subscription, which begins with what is published from now on if it is new. It is on disk when this returns, and other
    /// brokers that are linked have been told.
    ///
    /// # Errors
    /// A channel of the filter is not durable, the subscription selects something else, a limit is reached, the disk fails, or too few other
    /// brokers are linked to say whether there is one of this name.
    pub async fn attach_durable(
        self: &Arc<Self>,
        attach: AttachDurable,
    ) -> Result<DurableAttachment, Refusal> {
        let rooms = self.durable_rooms(&attach.selection)?;
        let (name, owner) = (name_of(&attach.owner, &attach.name)?, attach.owner.clone());
        self.wait_for_knowledge(&name, &attach, &rooms).await?;
        let (hub, of_name, asked) = (Arc::clone(self), name.clone(), attach.clone());
        let keep = move || hub.keep(&of_name, &asked, &hub.durable_rooms(&asked.selection)?, Arc::default());
        let kept = self.errands.run(&owner, keep).await??;
        let life = kept.served.life;
        self.wait_for_others(&name, life, &rooms).await;
        let hub = Arc::clone(self);
        let attachment = self.errands.run(&owner, move || hub.begin(kept, &attach)).await??;
        let unconfirmed = self.keeper.confirmed.without(&name, life, &peers_of(&rooms));
        Ok(attachment.confirmed_except(unconfirmed))
    }

    /// Waits until the subscription is known, or known to be new, or until its subscriber's word has to do.
    async fn wait_for_knowledge(
        &self,
        name: &SubscriptionName,
        attach: &AttachDurable,
        rooms: &[&Room],
    ) -> Result<(), Refusal> {
        // What it has shows that there is one.
        if self.wait_for_word_of(name, rooms).await || !attach.coverage.is_empty() {
            return Ok(());
        }
        Err(self.not_known(&attach.name, rooms))
    }

    /// The refusal of what nobody here knows, and others may.
    pub(super) fn not_known(&self, name: &str, rooms: &[&Room]) -> Refusal {
        let silent = self.members.silent(&peers_of(rooms));
        let silent: Vec<_> = silent.into_iter().map(broker_text).collect();
        let why = format_args!(
            "this broker does not know the durable subscription `{name}`, and needs links with most brokers to know that there is none. It waits for {}",
            silent.join(", ")
        );
        Refusal::new(RefusalCode::Unavailable, why)
    }

    /// Waits until a subscription is known, or most brokers of each of these channels have told what they know. Returns whether that is so.
    pub(super) async fn wait_for_word_of(&self, name: &SubscriptionName, rooms: &[&Room]) -> bool {
        let is_clear = || self.is_known(name) || self.have_most_told(rooms);
        let mut changes = self.members.changes();
        let clear = async { while !is_clear() && changes.changed().await.is_ok() {} };
        timeout(PATIENCE, clear).await.ok();
        is_clear()
    }

    fn is_known(&self, name: &SubscriptionName) -> bool {
        let known = self.keeper.opened().map(|store| store.meta().known(name));
        matches!(known, Some(Known::Alive(_)))
    }

    fn have_most_told(&self, rooms: &[&Room]) -> bool {
        rooms.iter().all(|room| self.members.have_most_told(&room.configured_peers()))
    }

    /// Tells the others, and waits until those that are linked have it on disk, and have told what was acknowledged there.
    async fn wait_for_others(&self, name: &SubscriptionName, life: Life, rooms: &[&Room]) {
        let mut changes = self.keeper.confirmed.changes();
        let mut links = self.members.changes();
        self.sharers.tell(name, None);
        let linked = || {
            let mut peers = peers_of(rooms);
            peers.retain(|peer| self.members.is_linked(*peer));
            peers
        };
        let all = async {
            while !self.keeper.confirmed.behind(name, life, &linked()).is_empty() {
                let changed = tokio::select! {
                    changed = changes.changed() => changed,
                    changed = links.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
            }
        };
        timeout(PATIENCE, all).await.ok();
    }

    /// Keeps the subscription in these channels, and appends to its logs from now on. Whoever waits for `notify` is woken for it.
    pub(super) fn keep(
        self: &Arc<Self>,
        name: &SubscriptionName,
        attach: &AttachDurable,
        rooms: &[&Room],
        notify: Arc<Notify>,
    ) -> Result<Kept, Refusal> {
        let _one = lock(&self.keeper.changing);
        let store = self.keeper.store().map_err(unavailable)?;
        let meta = store.meta();
        let former = meta.subscription(name);
        let subscription = self.wanted(meta, name, attach, rooms)?;
        let (mut logs, mut before) = (Vec::new(), Vec::new());
        for room in rooms {
            let log = store.log_with(room.id(), room.log_settings()).map_err(unavailable)?;
            let held = log.held().map_err(unavailable)?;
            let heads = room.begin_logging(log.clone(), &held);
            // What came before it was there is not its own. When one began that is known by its subscriber's word is not known.
            let is_new = former.as_ref().is_none_or(|former| !former.channels.contains(&room.id()));
            if is_new && subscription.born != 0 {
                let held = held.iter().map(|(origin, ranges)| (*origin, ranges.highest()));
                before.extend(heads.into_iter().chain(held).map(|head| (room.id(), head)));
            }
            logs.push((room.id(), log));
        }
        let served = Served { life: subscription.life(), selects: subscription.selects() };
        // A session that comes back costs no write.
        if former.as_deref() == Some(&subscription) {
            let place = Place::enter(self, name, served, notify);
            return Ok(Kept { place, served, logs });
        }
        meta.subscribe(&subscription).map_err(|error| refusal(&error))?;
        for (channel, (origin, highest)) in before {
            if let Some(range) = Range::new(1, highest) {
                meta.cover(name, channel, origin, range).map_err(|error| refusal(&error))?;
            }
        }
        // Of what is answered, nothing is only in memory.
        meta.flush().map_err(|error| refusal(&error))?;
        let place = Place::enter(self, name, served, notify);
        Ok(Kept { place, served, logs })
    }

    /// Begins to read.
    pub(super) fn begin(
        self: &Arc<Self>,
        kept: Kept,
        attach: &AttachDurable,
    ) -> Result<DurableAttachment, Refusal> {
        let Kept { place, served, logs } = kept;
        let store = self.keeper.opened().ok_or_else(|| unavailable("the store is closed"))?;
        let coverage = store.meta().coverage(&place.name).unwrap_or_default();
        let part = |(channel, log): (ChannelId, Log)| {
            let room = self.room(channel)?;
            let of = |coverage: &Coverage| coverage.of(channel).cloned().unwrap_or_default();
            let both = (of(&coverage), of(&attach.coverage));
            let number = room.logging().follow(Arc::clone(&place.signal));
            let reader = self.reader(&store, room, &log, &attach.selection, both);
            Some(reader.map(|reader| Part { channel, log, reader, number }).inspect_err(|_| {
                room.logging().unfollow(number);
            }))
        };
        let (mut parts, mut failed) = (Vec::new(), None);
        for part in logs.into_iter().filter_map(part) {
            part.map_or_else(|refusal| failed = Some(refusal), |part| parts.push(part));
        }
        place.signal.wake();
        let attachment = DurableAttachment::new(place, attach.owner.clone(), served, parts);
        failed.map_or(Ok(attachment), Err)
    }

    /// The channels that may have topics of a filter, and some before them: what the first channels take does not come to the others.
    pub(super) fn reached(&self, filter: &TopicFilter) -> impl Iterator<Item = &Room> {
        let last = self.rooms.iter().position(|room| room.has_all(filter)).unwrap_or(self.rooms.len());
        self.rooms.iter().take(last + 1)
    }

    /// The channels of a selection.
    fn durable_rooms(&self, selection: &Selection) -> Result<Vec<&Room>, Refusal> {
        let filter = selection.filter();
        let rooms: Vec<_> = self.reached(filter).filter(|room| room.may_have(selection)).collect();
        if rooms.is_empty() {
            return Err(self.no_channel_for(filter));
        }
        match rooms.iter().find(|room| room.durability() == Durability::Never) {
            Some(room) => {
                let why = format_args!(
                    "`{filter}` takes topics of the channel `{}`, which is not durable: write `durable = true` in its [[channel]], or use a \
                     narrower filter",
                    room.name()
                );
                Err(Refusal::new(RefusalCode::Mistake, why))
            }
            None => Ok(rooms),
        }
    }

    /// A reader that begins with the first message that is covered neither here nor there.
    fn reader(
        &self,
        store: &Store,
        room: &Room,
        log: &Log,
        selection: &Selection,
        (acknowledged, claimed): (ChannelCoverage, ChannelCoverage),
    ) -> Result<Reader, Refusal> {
        let mut both = acknowledged.clone();
        // What is too much for a coverage comes again.
        both.merge(&claimed).ok();
        let lowest = |origin: Origin, range: Range| match both.of(origin) {
            Some(covered) => covered.gaps(range).next().map(|gap| gap.first),
            None => Some(range.first),
        };
        let until = log.end();
        let first = log.first(lowest).map_err(unavailable)?;
        let reach = room.reach(selection);
        let is_whole = selection.selector().is_none() && reach.iter().all(|reach| *reach == Reach::Whole);
        let picks = Arc::new(selection.clone());
        let mut reader = Reader::new(Begin { picks, is_whole, acknowledged, claimed, first, until });
        let held = log.held().map_err(unavailable)?;
        reader.sweep(&removed(store.meta(), room, &held));
        Ok(reader)
    }

    /// The subscription as it is kept from now on.
    fn wanted(
        &self,
        meta: &Meta,
        name: &SubscriptionName,
        attach: &AttachDurable,
        rooms: &[&Room],
    ) -> Result<DurableSubscription, Refusal> {
        let (filter, selector) = (attach.selection.filter().to_string(), attach.selection.selector());
        let selector = selector.map(ToString::to_string);
        let former = meta.subscription(name);
        if let Some(former) = &former
            && (&former.filter, &former.selector) != (&filter, &selector)
        {
            let selector = former
                .selector
                .as_ref()
                .map_or_else(String::new, |text| format!(" and the selector `{text}`"));
            let why = format_args!(
                "the durable subscription `{}` has the filter `{}`{selector}: end it first, or use another name",
                attach.name, former.filter
            );
            return Err(Refusal::new(RefusalCode::Mistake, why));
        }
        if former.is_none() && is_of_session(name) {
            has_room(meta, &attach.owner).map_err(|error| refusal(&error))?;
        } else if former.is_none() && count(meta, |other| other.owner == attach.owner) >= MOST_OF_CLIENT {
            let what = "durable subscriptions of this client";
            return Err(refusal(&MetaError::TooMany { what, most: MOST_OF_CLIENT }));
        }
        let Life { born, generation } = match meta.known(name) {
            // No other broker knows it.
            Known::Nothing if is_of_session(name) => {
                Life { born: self.new_birth(), generation: attach.generation }
            }
            known => self.next_life(known, attach, rooms)?,
        };
        Ok(DurableSubscription {
            name: name.clone(),
            owner: attach.owner.clone(),
            filter,
            selector,
            channels: rooms.iter().map(|room| room.id()).collect(),
            generation,
            born,
        })
    }

    fn next_life(&self, known: Known, attach: &AttachDurable, rooms: &[&Room]) -> Result<Life, Refusal> {
        let next = known.life().map_or(0, |life| life.generation).saturating_add(1);
        let generation = if attach.generation == 0 { next } else { attach.generation };
        let born = match known {
            Known::Alive(life) => life.born,
            Known::Ended(_) if attach.generation > 0 => {
                let why = format_args!("the durable subscription `{}` was ended", attach.name);
                return Err(Refusal::new(RefusalCode::Superseded, why));
            }
            Known::Ended(life) => self.new_birth().max(life.born.saturating_add(1)),
            Known::Nothing if self.have_most_told(rooms) => self.new_birth(),
            // Whoever knows it knows when it was made.
            Known::Nothing => 0,
        };
        Ok(Life { born, generation })
    }

    fn new_birth(&self) -> u64 {
        self.clock.now().wall_ms << 16 | random() & 0xffff
    }
}

/// The other brokers that keep subscriptions to these channels.
fn peers_of(rooms: &[&Room]) -> Vec<BrokerId> {
    let mut peers: Vec<_> = rooms.iter().flat_map(|room| room.configured_peers()).collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}

impl DurableAttachment {
    /// Notes the brokers that have not confirmed it.
    fn confirmed_except(mut self, unconfirmed: Vec<BrokerId>) -> Self {
        self.unconfirmed = unconfirmed;
        self
    }
}
