//! Taking what other brokers tell about durable subscriptions.

use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::message::BrokerId;

use super::super::core::Hub;
use super::super::logging::Durability;
use super::super::scope::Scope;
use super::super::word::Word;
use super::presence::Served;
use super::refusals::unavailable;
use crate::durable::{Claim, Known, Life, Step};
use crate::locking::lock;
use crate::store::{DurableSubscription, Fact, Store, SubscriptionName};

impl Hub {
    /// Takes words of another broker, in a thread.
    ///
    /// # Errors
    /// Something cannot be stored now. The other broker is asked to repeat everything, so pause before taking more.
    pub async fn learn(self: &Arc<Self>, by: BrokerId, words: Vec<Word>) -> Result<(), String> {
        let (mut facts, mut attached, mut has_told_all) = (Vec::new(), Vec::new(), false);
        let scope = self.sharers.scope_of(by);
        for word in words {
            match word {
                Word::Fact(fact) => {
                    facts.extend(scope.as_ref().and_then(|scope| self.within_scope(scope, fact)));
                }
                Word::Attached { name, life, selects } => attached.push((name, Served { life, selects })),
                // Nobody confirms what is not here, and what is here is limited.
                Word::Confirmed { name, life } if self.keeper.has(&name) => {
                    self.keeper.confirmed.note(&name, by, life);
                }
                Word::Confirmed { .. } => {}
                Word::ToldAll => has_told_all = true,
                Word::TellAll => self.sharers.tell_all(by),
            }
        }
        if !facts.is_empty() {
            let hub = Arc::clone(self);
            let learned = self.errands.run(&by.0.to_le_bytes(), move || hub.learn_facts(by, &facts)).await;
            if let Err(why) = learned.map_err(|refusal| refusal.reason).and_then(|learned| learned) {
                self.sharers.ask_all(by);
                return Err(why);
            }
        }
        // In order: what was told before is known.
        for (name, served) in &attached {
            self.on_attached(by, name, *served);
        }
        if has_told_all {
            self.members.on_told(by);
        }
        Ok(())
    }

    /// The time after which words that could not be kept are taken again.
    pub const LEARN_AGAIN: Duration = Duration::from_secs(5);

    /// The part of a fact that another broker may tell: what is about channels that its link carries.
    fn within_scope(&self, scope: &Scope, fact: Fact) -> Option<Fact> {
        let known = self.keeper.opened().and_then(|store| store.meta().channels_of(fact.name()));
        // Of what is not known here, nothing can be lost.
        let may_tell = known.is_none_or(|channels| scope.has(Some(&channels)));
        match &fact {
            Fact::Kept(told) if !scope.has(Some(&told.channels)) => None,
            _ if may_tell => scope.narrow(fact),
            _ => None,
        }
    }

    fn learn_facts(&self, by: BrokerId, facts: &[Fact]) -> Result<(), String> {
        // Without a folder, nothing can be kept, and nothing is confirmed.
        if self.keeper.place.folder.is_err() {
            return Ok(());
        }
        let _one = lock(&self.keeper.changing);
        let brings = facts.iter().any(|fact| matches!(fact, Fact::Kept(_)));
        // Who knows of no subscription need not remember that one was ended.
        let store = match self.keeper.opened() {
            None if !brings && !self.has_store_folder() => return Ok(()),
            Some(store) => store,
            None => self.keeper.store()?,
        };
        let steps = store.meta().learn(facts, self.clock.now().wall_ms).map_err(|error| error.to_string())?;
        for (fact, step) in facts.iter().zip(steps) {
            match fact {
                Fact::Kept(told) => self.on_kept(&store, by, told, step)?,
                Fact::Ended { name, life, .. } => match step {
                    Step::End(_) => {
                        self.keeper.forget(name);
                        self.sharers.tell(name, Some(by));
                    }
                    // It began anew since.
                    _ if matches!(store.meta().known(name), Known::Alive(known) if known != *life) => {
                        self.sharers.correct(by, name);
                    }
                    _ if matches!(store.meta().known(name), Known::Ended(_)) => self.keeper.forget(name),
                    _ => {}
                },
                Fact::Covered { .. } => {}
            }
        }
        Ok(())
    }

    fn on_kept(
        &self,
        store: &Store,
        by: BrokerId,
        told: &DurableSubscription,
        step: Step,
    ) -> Result<(), String> {
        let (name, life, selects) = (&told.name, told.life(), told.selects());
        let is_agreed = store.meta().has_selection(name, selects);
        let keep = |now: Life| -> Result<(), String> {
            self.log_for(store, told)?;
            // Whoever is attached in another life, or selects something else, has another subscription.
            let gives_way = |here: Served| {
                !here.is_same(Served { life: now, selects }) || here.life.generation < now.generation
            };
            let was_here = self.keeper.presences.give_way(name, gives_way);
            self.keeper.confirmed.note(name, by, life);
            self.sharers.confirm(by, name, was_here);
            Ok(())
        };
        match (step, store.meta().known(name)) {
            (Step::GoOn(_) | Step::Begin(_), Known::Alive(now)) if is_agreed => {
                if matches!(step, Step::Begin(_)) {
                    self.keeper.confirmed.forget(name);
                }
                keep(now)?;
                self.sharers.tell(name, Some(by));
            }
            // What followed from it may have failed when it was heard first.
            (_, Known::Alive(now)) if now == life && is_agreed => keep(now)?,
            // It knows less, or something else.
            (_, Known::Alive(_) | Known::Ended(_)) => self.sharers.correct(by, name),
            // There is no room for it.
            (_, Known::Nothing) => {}
        }
        Ok(())
    }

    /// Another broker serves a subscription. If it is attached here in the same generation, one of both has to end.
    fn on_attached(&self, by: BrokerId, name: &SubscriptionName, there: Served) {
        let Some(here) = self.keeper.served(name).filter(|here| here.is_same(there)) else { return };
        let claim = |served: Served, broker| Claim { generation: served.life.generation, broker };
        if claim(here, self.name.broker).gives_way_to(claim(there, by)) {
            self.keeper.presences.give_way(name, |now| now == here);
        } else {
            // It may have heard of the attachment here before there was one there.
            self.sharers.correct(by, name);
        }
    }

    /// Appends to the logs of a subscription's channels from now on.
    fn log_for(&self, store: &Store, subscription: &DurableSubscription) -> Result<(), String> {
        let rooms = subscription.channels.iter().filter_map(|channel| self.room(*channel));
        for room in rooms.filter(|room| room.durability() != Durability::Never) {
            if room.logging().log().is_none() {
                let log =
                    store.log_with(room.id(), room.log_settings()).map_err(|error| error.to_string())?;
                let held = log.held().map_err(unavailable).map_err(|refusal| refusal.reason)?;
                room.begin_logging(log, &held);
            }
        }
        Ok(())
    }
}
