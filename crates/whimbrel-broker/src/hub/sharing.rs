//! News for another broker about durable subscriptions.
//!
//! Those of MQTT sessions belong to one broker, and nobody else is told.

use std::sync::{Arc, Mutex};

use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::core::Hub;
use super::keeper::session_name::is_of_session;
use super::members::Membership;
use super::scope::Scope;
use super::sharers::{Item, List, Queue, Sharer, Walk};
use super::signal::Signal;
use super::word::Word;
use crate::locking::lock;
use crate::store::{Fact, Meta, SubscriptionName};

/// The most names that are looked up at once.
const NAMES: usize = 64;

/// A link's source of what it has to tell. Dropping it ends that.
#[derive(Debug)]
pub struct Sharing {
    hub: Arc<Hub>,
    number: u64,
    sharer: Arc<Sharer>,
    _membership: Membership,
}

impl Hub {
    /// Enters a link with a broker that takes part in keeping durable subscriptions to these channels. It begins with all that is known of
    /// them here.
    pub fn share_with(self: &Arc<Self>, peer: BrokerId, channels: &[ChannelId]) -> Sharing {
        let scope = Scope::new(channels, &self.channels());
        let queue = Queue { urgent: List::default(), walk: Walk::Behind(None), covered: List::default() };
        let signal = Arc::new(Signal::default());
        signal.wake();
        let sharer = Arc::new(Sharer { peer, scope, queue: Mutex::new(queue), signal });
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
        match item {
            Item::All(name) => self.say_all(meta, &name, false, words),
            Item::Answer(name) => self.say_all(meta, &name, true, words),
            Item::Coverage(name) => {
                let facts = self.facts(meta, &name, false);
                words.extend(facts.filter(|fact| matches!(fact, Fact::Covered { .. })).map(Word::Fact));
            }
            Item::Confirm(name) => {
                let life = meta.subscription(&name).map(|subscription| subscription.life());
                words.extend(life.map(|life| Word::Confirmed { name, life }));
            }
            Item::TellAll => words.push(Word::TellAll),
        }
    }

    fn say_all(&self, meta: &Meta, name: &SubscriptionName, is_answer: bool, words: &mut Vec<Word>) {
        words.extend(self.facts(meta, name, is_answer).map(Word::Fact));
        let kept = meta.subscription(name).filter(|kept| self.sharer.scope.has(Some(&kept.channels)));
        if let Some((kept, served)) = kept.zip(self.hub.keeper.served(name))
            && served.selects == kept.selects()
            && served.life.generation == kept.generation
        {
            let (name, life, selects) = (name.clone(), kept.life(), served.selects);
            words.push(Word::Attached { name, life, selects });
        }
    }

    /// Returns the facts about a name that the other broker may hear. An answer may also say that a subscription was ended in channels that
    /// nobody knows any more.
    fn facts(&self, meta: &Meta, name: &SubscriptionName, is_answer: bool) -> impl Iterator<Item = Fact> {
        let (scope, channels) = (&self.sharer.scope, meta.channels_of(name));
        let may_hear = scope.has(channels.as_deref()) || is_answer && channels.is_none();
        let facts = if may_hear { meta.facts_of(name, self.hub.clock.now().wall_ms) } else { Vec::new() };
        facts.into_iter().filter_map(move |fact| scope.narrow(fact))
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        lock(&self.hub.sharers.0).remove(&self.number);
    }
}
