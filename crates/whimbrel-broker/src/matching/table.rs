use std::collections::BTreeMap;
use std::sync::Arc;

use whimbrel_pubsub::property::Lookup;
use whimbrel_pubsub::topic::{Topic, TopicFilter};

use super::bucket::Place;
use super::limits::{Limits, Refused, Usage};
use super::slab::Slab;
use super::term::Term;
use super::tree::{Tree, Visits};
use crate::selector::Selector;

/// The name of a subscription in the table: its client, and a number by which the client has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscription {
    /// The client.
    pub client: u64,
    /// The number.
    pub number: u32,
}

/// All subscriptions of a broker.
#[derive(Debug, Default)]
pub struct Table {
    limits: Limits,
    tree: Tree,
    entries: Slab<Entry>,
    slots: BTreeMap<Subscription, u32>,
    clients: BTreeMap<u64, Usage>,
}

#[derive(Debug)]
struct Entry {
    subscription: Subscription,
    filter: TopicFilter,
    selector: Option<Arc<Selector>>,
    place: Place,
}

/// The subscriptions that take a message. It is passed to each [`Table::matches`], so that its memory is reused.
#[derive(Debug, Default)]
pub struct Found {
    /// In no particular order. None comes twice.
    pub subscriptions: Vec<Subscription>,
    /// The number of selectors that were evaluated.
    pub evaluated: usize,
    /// Whether the same subscriptions take every message of the topic.
    pub is_by_topic: bool,
    visits: Visits,
}

/// The parts of a table, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Subscriptions.
    pub subscriptions: usize,
    /// Clients that have some.
    pub clients: usize,
    /// Levels of filters, of which those at the front are shared.
    pub nodes: usize,
    /// Entries by which subscriptions are found: as many as values and ranges in their terms.
    pub entries: usize,
}

impl Table {
    /// Creates an empty table.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Enters a subscription, in place of one of this name.
    ///
    /// # Errors
    /// A limit is reached. A subscription of this name stays as it was.
    pub fn insert(
        &mut self,
        subscription: Subscription,
        filter: &TopicFilter,
        selector: Option<Arc<Selector>>,
    ) -> Result<(), Refused> {
        let place = self.place(filter, selector.as_deref());
        let entry = Entry { subscription, filter: filter.clone(), selector, place };
        let old = self.slots.get(&subscription).and_then(|slot| self.entries.at(*slot));
        let usage = self.clients.get(&subscription.client).copied().unwrap_or_default();
        let usage = usage.minus(old.map(Entry::usage).unwrap_or_default()).plus(entry.usage());
        usage.check(&self.limits)?;
        if old.is_none() && self.slots.len() >= self.limits.max_subscriptions {
            return Err(Refused::Subscriptions(self.limits.max_subscriptions));
        }
        self.remove(subscription);
        let slot = self.entries.insert(entry);
        self.slots.insert(subscription, slot);
        self.clients.insert(subscription.client, usage);
        let place = self.entries.at(slot).map(|entry| &entry.place);
        if let (Some(bucket), Some(place)) = (self.tree.bucket_mut(filter), place) {
            bucket.insert(place, slot);
        }
        Ok(())
    }

    fn place(&self, filter: &TopicFilter, selector: Option<&Selector>) -> Place {
        let Some(selector) = selector else { return Place::All };
        let terms = Term::all_of(selector);
        let chosen = match self.tree.bucket(filter) {
            Some(bucket) => bucket.choose(terms),
            None => terms.into_iter().min_by_key(Term::rank),
        };
        chosen.map_or(Place::Scanned, Place::Term)
    }

    /// Takes a subscription out. Returns whether there was one.
    pub fn remove(&mut self, subscription: Subscription) -> bool {
        let Some(slot) = self.slots.remove(&subscription) else { return false };
        let Some(entry) = self.entries.remove(slot) else { return false };
        if let Some(bucket) = self.tree.bucket_mut(&entry.filter) {
            bucket.remove(&entry.place, slot);
        }
        self.tree.tidy(&entry.filter);
        if let Some(usage) = self.clients.get_mut(&subscription.client) {
            *usage = usage.minus(entry.usage());
            if usage.subscriptions == 0 {
                self.clients.remove(&subscription.client);
            }
        }
        true
    }

    /// Takes all subscriptions of a client out. Returns their number.
    pub fn remove_client(&mut self, client: u64) -> usize {
        let of = |number| Subscription { client, number };
        let subscriptions: Vec<_> = self.slots.range(of(0)..=of(u32::MAX)).map(|(name, _)| *name).collect();
        subscriptions.iter().filter(|subscription| self.remove(**subscription)).count()
    }

    /// Finds the subscriptions that take a message of this topic, each once.
    pub fn matches(&self, topic: &Topic, message: &(impl Lookup + ?Sized), found: &mut Found) {
        let Found { subscriptions, evaluated, is_by_topic, visits } = found;
        subscriptions.clear();
        (*evaluated, *is_by_topic) = (0, true);
        self.tree.each(topic, visits, |bucket| {
            *is_by_topic &= !bucket.has_selectors();
            bucket.each(message, |slot, is_candidate| {
                let Some(entry) = self.entries.at(slot) else { return };
                *evaluated += usize::from(is_candidate);
                let selector = entry.selector.as_deref().filter(|_| is_candidate);
                if selector.is_none_or(|selector| selector.matches(message)) {
                    subscriptions.push(entry.subscription);
                }
            });
        });
    }

    /// Returns the number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts what the table consists of, which takes as long as there is much.
    #[must_use]
    pub fn held(&self) -> Held {
        let (nodes, entries) = self.tree.held();
        Held { subscriptions: self.slots.len(), clients: self.clients.len(), nodes, entries }
    }
}

impl Entry {
    fn usage(&self) -> Usage {
        Usage {
            subscriptions: 1,
            levels: self.filter.levels().count(),
            selectors: self.selector.as_deref().map_or(0, Selector::held),
            scanned: usize::from(matches!(self.place, Place::Scanned)),
        }
    }
}
