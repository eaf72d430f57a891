//! News for another broker about durable subscriptions.
//!
//! Those of MQTT sessions belong to one broker, and nobody else is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use whimbrel_pubsub::message::BrokerId;

use super::Hub;
use super::keeper::is_of_session;
use super::members::Membership;
use super::signal::Signal;
use crate::durable::Life;
use crate::store::{Fact, Meta, SubscriptionName};

/// The most names that are looked up at once.
const NAMES: usize = 64;

/// Something that brokers tell each other about durable subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A fact that the sender knows.
    Fact(Fact),
    /// The sender has this subscription on disk, and appends to its logs.
    Confirmed {
        /// The subscription.
        name: SubscriptionName,
        /// Its life, as the sender knows it.
        life: Life,
    },
    /// The sender has told all that it knew.
    ToldAll,
    /// The sender could not keep something, and wants to be told all again.
    TellAll,
}

/// The links that tell.
#[derive(Debug, Default)]
pub(super) struct Sharers(Mutex<BTreeMap<u64, Arc<Sharer>>>);

/// One link's part.
#[derive(Debug)]
struct Sharer {
    peer: BrokerId,
    queue: Mutex<Queue>,
    signal: Arc<Signal>,
}

/// The names of which something is to be told. Each is in a list once at most.
#[derive(Debug)]
struct Queue {
    urgent: List<Item>,
    walk: Walk,
    covered: List<SubscriptionName>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// All that is known.
    All(SubscriptionName),
    /// The coverage.
    Coverage(SubscriptionName),
    /// That it is on disk here.
    Confirm(SubscriptionName),
    /// The wish to be told all again.
    TellAll,
}

/// How far all subscriptions were told.
#[derive(Debug)]
enum Walk {
    Behind(Option<SubscriptionName>),
    Over,
}

#[derive(Debug)]
struct List<T> {
    order: VecDeque<T>,
    all: BTreeSet<T>,
}

/// A link's source of what it has to tell. Dropping it ends that.
#[derive(Debug)]
pub struct Sharing {
    hub: Arc<Hub>,
    number: u64,
    sharer: Arc<Sharer>,
    _membership: Membership,
}

impl Sharers {
    /// A subscription came, goes on elsewhere, or ended: all but `except` are told all about it.
    pub(super) fn tell(&self, name: &SubscriptionName, except: Option<BrokerId>) {
        if is_of_session(name) {
            return;
        }
        let others = |sharer: &BrokerId| Some(*sharer) != except;
        self.each(others, |queue| queue.urgent.push(Item::All(name.clone())));
    }

    /// The coverage of subscriptions has grown.
    pub(super) fn tell_coverage(&self, names: &BTreeSet<SubscriptionName>) {
        let shared: Vec<_> = names.iter().filter(|name| !is_of_session(name)).collect();
        if !shared.is_empty() {
            self.each(|_| true, |queue| shared.iter().for_each(|name| queue.covered.push((*name).clone())));
        }
    }

    /// Answers `peer` that a subscription is kept here, after the coverage that is known here.
    pub(super) fn confirm(&self, peer: BrokerId, name: &SubscriptionName, has_news: bool) {
        let is_peer = |other: &BrokerId| *other == peer;
        self.each(is_peer, |queue| {
            if has_news {
                queue.urgent.push(Item::Coverage(name.clone()));
            }
            queue.urgent.push(Item::Confirm(name.clone()));
        });
    }

    /// Tells `peer` all about a subscription of which it knows less.
    pub(super) fn correct(&self, peer: BrokerId, name: &SubscriptionName) {
        self.each(|other| *other == peer, |queue| queue.urgent.push(Item::All(name.clone())));
    }

    /// Tells `peer` all from the beginning.
    pub(super) fn tell_all(&self, peer: BrokerId) {
        self.each(|other| *other == peer, |queue| queue.walk = Walk::Behind(None));
    }

    /// Asks `peer` to tell all from the beginning.
    pub(super) fn ask_all(&self, peer: BrokerId) {
        self.each(|other| *other == peer, |queue| queue.urgent.push(Item::TellAll));
    }

    fn each(&self, is_one: impl Fn(&BrokerId) -> bool, mut change: impl FnMut(&mut Queue)) {
        for sharer in lock(&self.0).values().filter(|sharer| is_one(&sharer.peer)) {
            change(&mut lock(&sharer.queue));
            sharer.signal.wake();
        }
    }
}

impl Hub {
    /// Enters a link with a broker that takes part in keeping durable subscriptions. It begins with all that is known here.
    pub fn share_with(self: &Arc<Self>, peer: BrokerId) -> Sharing {
        let queue = Queue { urgent: List::default(), walk: Walk::Behind(None), covered: List::default() };
        let signal = Arc::new(Signal::default());
        signal.wake();
        let sharer = Arc::new(Sharer { peer, queue: Mutex::new(queue), signal });
        let mut sharers = lock(&self.sharers.0);
        let number = sharers.last_key_value().map_or(0, |(last, _)| last + 1);
        sharers.insert(number, Arc::clone(&sharer));
        drop(sharers);
        Sharing { hub: Arc::clone(self), number, sharer, _membership: self.members.join(peer) }
    }
}

impl Sharing {
    /// Waits until there may be something to tell.
    pub async fn woken(&self) {
        self.sharer.signal.woken().await;
    }

    /// The next words, about a few names. None: there is nothing to tell now.
    pub fn next(&self) -> Vec<Word> {
        self.sharer.signal.look();
        loop {
            let words = self.some();
            if !words.is_empty() || !self.has_more() {
                return words;
            }
        }
    }

    fn has_more(&self) -> bool {
        let queue = lock(&self.sharer.queue);
        matches!(queue.walk, Walk::Behind(_)) || !queue.urgent.all.is_empty() || !queue.covered.all.is_empty()
    }

    /// Words about the next few names, which may have gone.
    fn some(&self) -> Vec<Word> {
        let (items, has_told_all) = self.items();
        let mut words = Vec::new();
        let store = self.hub.keeper.opened();
        for item in items {
            match (item, &store) {
                (Item::TellAll, _) => words.push(Word::TellAll),
                (item, Some(store)) => self.say(store.meta(), item, &mut words),
                // Without a store, nothing is known.
                (_, None) => {}
            }
        }
        if has_told_all {
            words.push(Word::ToldAll);
        }
        words
    }

    /// The next few items, and whether all is told then.
    fn items(&self) -> (Vec<Item>, bool) {
        let after = {
            let mut queue = lock(&self.sharer.queue);
            let urgent: Vec<_> = std::iter::from_fn(|| queue.urgent.pop()).take(NAMES).collect();
            if !urgent.is_empty() {
                return (urgent, false);
            }
            match &queue.walk {
                Walk::Behind(after) => after.clone(),
                Walk::Over => {
                    let covered = std::iter::from_fn(|| queue.covered.pop()).take(NAMES);
                    return (covered.map(Item::Coverage).collect(), false);
                }
            }
        };
        let store = self.hub.keeper.opened();
        let names = store.map(|store| store.meta().names_after(after.as_ref(), NAMES)).unwrap_or_default();
        let is_last = names.len() < NAMES;
        let next = names.last().filter(|_| !is_last).cloned();
        let mut queue = lock(&self.sharer.queue);
        // Unless it was sent back to the beginning meanwhile.
        if matches!(&queue.walk, Walk::Behind(at) if *at == after) {
            queue.walk = next.map_or(Walk::Over, |next| Walk::Behind(Some(next)));
        }
        (names.into_iter().filter(|name| !is_of_session(name)).map(Item::All).collect(), is_last)
    }

    fn say(&self, meta: &Meta, item: Item, words: &mut Vec<Word>) {
        let wall_ms = self.hub.clock.now().wall_ms;
        match item {
            Item::All(name) => words.extend(meta.facts_of(&name, wall_ms).into_iter().map(Word::Fact)),
            Item::Coverage(name) => {
                let facts = meta.facts_of(&name, wall_ms).into_iter();
                words.extend(facts.filter(|fact| matches!(fact, Fact::Covered { .. })).map(Word::Fact));
            }
            Item::Confirm(name) => {
                let life = meta.subscription(&name).map(|subscription| subscription.life());
                words.extend(life.map(|life| Word::Confirmed { name, life }));
            }
            Item::TellAll => words.push(Word::TellAll),
        }
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        lock(&self.hub.sharers.0).remove(&self.number);
    }
}

impl<T: Clone + Ord> List<T> {
    /// Enters one at the end, unless it is there.
    fn push(&mut self, item: T) {
        if self.all.insert(item.clone()) {
            self.order.push_back(item);
        }
    }

    fn pop(&mut self) -> Option<T> {
        let item = self.order.pop_front()?;
        self.all.remove(&item);
        Some(item)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), all: BTreeSet::new() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
