//! The links that tell other brokers of durable subscriptions, and what each has yet to tell.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use whimbrel_pubsub::message::BrokerId;

use super::keeper::session_name::is_of_session;
use super::scope::Scope;
use super::signal::Signal;
use crate::locking::lock;
use crate::store::SubscriptionName;

/// The links that tell.
#[derive(Debug, Default)]
pub(super) struct Sharers(pub(super) Mutex<BTreeMap<u64, Arc<Sharer>>>);

/// One link's part.
#[derive(Debug)]
pub(super) struct Sharer {
    pub(super) peer: BrokerId,
    pub(super) scope: Scope,
    pub(super) queue: Mutex<Queue>,
    pub(super) signal: Arc<Signal>,
}

/// The names of which something is to be told. Each is in a list once at most.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) urgent: List<Item>,
    pub(super) walk: Walk,
    pub(super) covered: List<SubscriptionName>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// All that is known.
    All(SubscriptionName),
    /// The same, for a broker that has spoken of it.
    Answer(SubscriptionName),
    /// The coverage.
    Coverage(SubscriptionName),
    /// That it is on disk here.
    Confirm(SubscriptionName),
    /// The wish to be told all again.
    TellAll,
}

/// How far all subscriptions were told.
#[derive(Debug)]
pub(super) enum Walk {
    Behind(Option<SubscriptionName>),
    Over,
}

#[derive(Debug)]
pub(super) struct List<T> {
    order: VecDeque<T>,
    pub(super) all: BTreeSet<T>,
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
        self.each(|other| *other == peer, |queue| queue.urgent.push(Item::Answer(name.clone())));
    }

    /// Returns the channels that the link with `peer` carries. `None` if there is no link.
    pub(super) fn scope_of(&self, peer: BrokerId) -> Option<Scope> {
        // Of two links, the newer counts.
        let sharers = lock(&self.0);
        sharers.values().rfind(|sharer| sharer.peer == peer).map(|sharer| sharer.scope.clone())
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

impl<T: Clone + Ord> List<T> {
    /// Enters one at the end, unless it is there.
    pub(super) fn push(&mut self, item: T) {
        if self.all.insert(item.clone()) {
            self.order.push_back(item);
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
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
