//! The subscriptions that are attached.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::SubscriptionId;
use whimbrel_pubsub::frame::{Refusal, RefusalCode};

use super::signal::Signal;
use crate::matching::Subscription;

/// A client, for limits that each has.
pub type ClientId = u64;

/// The subscriptions that are attached, and of which states they are.
#[derive(Debug, Default)]
pub(super) struct Attached {
    /// In no order: who comes first when all are woken does not matter.
    signals: HashMap<Subscription, Arc<Signal>>,
    states: BTreeMap<SubscriptionId, (u64, Subscription)>,
    clients: BTreeMap<ClientId, Names>,
}

/// The names of a client's subscriptions.
#[derive(Debug, Default)]
struct Names {
    last: u32,
    attached: u32,
}

impl Attached {
    /// Enters a subscription of this client, and names it. Whoever waits for `notify` is woken for it.
    pub(super) fn enter(&mut self, client: ClientId, notify: Arc<Notify>) -> (Subscription, Arc<Signal>) {
        let names = self.clients.entry(client).or_default();
        names.attached += 1;
        let subscription = loop {
            names.last = names.last.wrapping_add(1);
            let subscription = Subscription { client, number: names.last };
            if !self.signals.contains_key(&subscription) {
                break subscription;
            }
        };
        let signal = Arc::new(Signal::of(notify));
        self.signals.insert(subscription, Arc::clone(&signal));
        (subscription, signal)
    }

    /// Attaches a state. Of two devices with one state, the one with the higher generation stays.
    pub(super) fn claim(
        &mut self,
        id: SubscriptionId,
        generation: u64,
        subscription: Subscription,
    ) -> Result<(), Refusal> {
        if let Some((attached, former)) = self.states.get(&id) {
            if *attached > generation {
                return Err(Refusal::new(
                    RefusalCode::Superseded,
                    "this state was attached more recently by another device: give each device a state of its own",
                ));
            }
            if let Some(signal) = self.signals.get(former) {
                signal.supersede();
            }
        }
        self.states.insert(id, (generation, subscription));
        Ok(())
    }

    pub(super) fn remove(&mut self, subscription: Subscription, state: Option<SubscriptionId>) {
        self.signals.remove(&subscription);
        if let Some(id) = state
            && self.states.get(&id).is_some_and(|(_, attached)| *attached == subscription)
        {
            self.states.remove(&id);
        }
        if let Some(names) = self.clients.get_mut(&subscription.client) {
            names.attached -= 1;
            if names.attached == 0 {
                self.clients.remove(&subscription.client);
            }
        }
    }

    pub(super) fn wake(&self, subscription: Subscription) {
        if let Some(signal) = self.signals.get(&subscription) {
            signal.wake();
        }
    }

    pub(super) fn wake_all(&self) {
        #[allow(clippy::iter_over_hash_type, reason = "all are woken, in whatever order")]
        for signal in self.signals.values() {
            signal.wake();
        }
    }
}
