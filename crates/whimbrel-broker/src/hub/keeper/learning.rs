//! Taking what other brokers tell about durable subscriptions.

use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::message::BrokerId;

use super::super::core::Hub;
use super::super::logging::Durability;
use super::super::word::Word;
use super::refusals::unavailable;
use crate::durable::{Known, Step};
use crate::locking::lock;
use crate::store::{DurableSubscription, Fact, Store};

impl Hub {
    /// Takes words of another broker, in a thread.
    ///
    /// # Errors
    /// Something cannot be kept now. The other broker is asked to tell all again, so wait a while before taking more.
    pub async fn learn(self: &Arc<Self>, by: BrokerId, words: Vec<Word>) -> Result<(), String> {
        let (mut facts, mut has_told_all) = (Vec::new(), false);
        for word in words {
            match word {
                Word::Fact(fact) => facts.push(fact),
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
        if has_told_all {
            self.members.on_told(by);
        }
        Ok(())
    }

    /// The time after which words that could not be kept are taken again.
    pub const LEARN_AGAIN: Duration = Duration::from_secs(5);

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
        let (name, life) = (&told.name, told.life());
        match (step, store.meta().known(name)) {
            (Step::GoOn(_) | Step::Begin(_), Known::Alive(now)) => {
                self.log_for(store, told)?;
                let was_here = self.keeper.presences.give_way(name, now.generation);
                self.keeper.confirmed.note(name, by, life);
                self.sharers.confirm(by, name, was_here);
                self.sharers.tell(name, Some(by));
            }
            // What followed from it may have failed when it was heard first.
            (_, Known::Alive(now)) if now == life => {
                self.log_for(store, told)?;
                self.keeper.presences.give_way(name, now.generation);
                self.keeper.confirmed.note(name, by, life);
                self.sharers.confirm(by, name, false);
            }
            // It knows less.
            (_, Known::Alive(_) | Known::Ended(_)) => self.sharers.correct(by, name),
            // There is no room for it.
            (_, Known::Nothing) => {}
        }
        Ok(())
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
