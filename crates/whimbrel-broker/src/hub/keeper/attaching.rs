//! A durable subscription comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{ChannelCoverage, Coverage, Range};
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::Origin;
use whimbrel_pubsub::topic::TopicFilter;

use super::super::{Durability, Hub, Room};
use super::attachment::{DurableAttachment, Part};
use super::session_name::is_of_session;
use super::sessions::has_room;
use super::{Presence, count, name_of, refusal, unavailable};
use crate::buffer::Reach;
use crate::durable::{Begin, Reader};
use crate::hub::signal::Signal;
use crate::selection::Selection;
use crate::store::{DurableSubscription, Log, MetaError, Store, SubscriptionName};

/// The most durable subscriptions of one client.
pub const MOST_OF_CLIENT: usize = 100;

/// A request to attach a durable subscription.
#[derive(Clone, Debug)]
pub struct AttachDurable {
    /// The client's key.
    pub owner: Vec<u8>,
    /// The client's name for it.
    pub name: String,
    /// How often it was attached. 0: once more than is known.
    pub generation: u64,
    /// The messages that the subscriber has.
    pub coverage: Coverage,
    /// Its filter and selector.
    pub selection: Selection,
}

impl Hub {
    /// Attaches a durable subscription, which begins with what is published from now on if it is new. It is on disk when this returns.
    ///
    /// # Errors
    /// A channel of the filter is not durable, the subscription selects something else, a limit is reached, or the disk fails.
    pub fn attach_durable(self: &Arc<Self>, attach: AttachDurable) -> Result<DurableAttachment, Refusal> {
        let rooms = self.durable_rooms(&attach.selection)?;
        let name = name_of(&attach.owner, &attach.name)?;
        self.attach_named(name, &attach, &rooms, Arc::default())
    }

    /// Attaches a subscription of this name in these channels. Whoever waits for `notify` is woken for it.
    pub(super) fn attach_named(
        self: &Arc<Self>,
        name: SubscriptionName,
        attach: &AttachDurable,
        rooms: &[&Room],
        notify: Arc<Notify>,
    ) -> Result<DurableAttachment, Refusal> {
        let _one = super::lock(&self.keeper.changing);
        let store = self.keeper.store().map_err(unavailable)?;
        let meta = store.meta();
        let former = meta.subscription(&name);
        let subscription = wanted(&store, &name, attach, rooms)?;
        let mut parts = Vec::new();
        let mut before = Vec::new();
        for room in rooms {
            let log = store.log_with(room.id(), room.log_settings()).map_err(unavailable)?;
            let held = log.held().map_err(unavailable)?;
            let heads = room.begin_logging(log.clone());
            // What came before it was there is not its own.
            if former.as_ref().is_none_or(|former| !former.channels.contains(&room.id())) {
                let held = held.iter().map(|(origin, ranges)| (*origin, ranges.highest()));
                before.extend(heads.into_iter().chain(held).map(|head| (room.id(), head)));
            }
            parts.push((*room, log));
        }
        // A session that comes back costs no write.
        if former.as_deref() != Some(&subscription) {
            meta.subscribe(&subscription).map_err(|error| refusal(&error))?;
            for (channel, (origin, highest)) in before {
                if let Some(range) = Range::new(1, highest) {
                    meta.cover(&name, channel, origin, range).map_err(|error| refusal(&error))?;
                }
            }
            // Of what is answered, nothing is only in memory.
            meta.flush().map_err(|error| refusal(&error))?;
        }
        let signal = Arc::new(Signal::of(notify));
        let parts = parts.into_iter().map(|(room, log)| {
            let claimed = attach.coverage.of(room.id()).cloned().unwrap_or_default();
            let reader = self.reader(&store, room, &log, (&name, &attach.selection), claimed)?;
            Ok(Part { channel: room.id(), log, reader, number: room.logging().follow(Arc::clone(&signal)) })
        });
        let parts = parts.collect::<Result<Vec<_>, Refusal>>()?;
        let number = self.keeper.enter(&name, Arc::clone(&signal));
        signal.wake();
        Ok(DurableAttachment::new(Arc::clone(self), name, number, signal, parts))
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
            let why = format_args!("no channel of this broker has topics of the filter `{filter}`");
            return Err(Refusal::new(RefusalCode::Mistake, why));
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
        (name, selection): (&SubscriptionName, &Selection),
        claimed: ChannelCoverage,
    ) -> Result<Reader, Refusal> {
        let coverage = store.meta().coverage(name).unwrap_or_default();
        let acknowledged = coverage.of(room.id()).cloned().unwrap_or_default();
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
        reader.sweep(&held, &floors(store, room, &held));
        Ok(reader)
    }
}

/// Up to which sequence of each origin all that was stored is held or was removed. Own messages are stored in the order of their sequences,
/// and removed in that order. Those of other brokers may come late.
pub(super) fn floors(
    store: &Store,
    room: &Room,
    held: &BTreeMap<Origin, whimbrel_pubsub::coverage::Ranges>,
) -> BTreeMap<Origin, u64> {
    let own = room.own().broker;
    let seen = store.meta().seen(room.id()).into_iter().filter(|(origin, _)| origin.broker == own);
    let floor = |(origin, highest): (Origin, u64)| {
        let lowest = held.get(&origin).and_then(|ranges| ranges.iter().next()).map(|range| range.first);
        (origin, lowest.map_or(highest, |lowest| lowest - 1))
    };
    seen.map(floor).collect()
}

/// The subscription as it is kept from now on.
fn wanted(
    store: &Store,
    name: &SubscriptionName,
    attach: &AttachDurable,
    rooms: &[&Room],
) -> Result<DurableSubscription, Refusal> {
    let meta = store.meta();
    let (filter, selector) = (attach.selection.filter().to_string(), attach.selection.selector());
    let selector = selector.map(ToString::to_string);
    let former = meta.subscription(name);
    if let Some(former) = &former
        && (&former.filter, &former.selector) != (&filter, &selector)
    {
        let selector =
            former.selector.as_ref().map_or_else(String::new, |text| format!(" and the selector `{text}`"));
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
    let known = former.map(|former| former.generation).or(meta.tombstone(name).map(|ended| ended.generation));
    let next = known.unwrap_or(0).saturating_add(1);
    Ok(DurableSubscription {
        name: name.clone(),
        owner: attach.owner.clone(),
        filter,
        selector,
        channels: rooms.iter().map(|room| room.id()).collect(),
        generation: if attach.generation == 0 { next } else { attach.generation },
    })
}

impl super::Keeper {
    /// Enters an attached subscription, in place of a former one. Returns its number.
    fn enter(&self, name: &SubscriptionName, signal: Arc<Signal>) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let former = self.presence().insert(name.clone(), Presence::Attached { number, signal });
        if let Some(Presence::Attached { signal, .. }) = former {
            signal.supersede();
        }
        number
    }
}
