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

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: SubscriptionId = SubscriptionId(7);

    fn enter(attached: &mut Attached, client: ClientId) -> (Subscription, Arc<Signal>) {
        attached.enter(client, Arc::default())
    }

    #[test]
    fn of_two_devices_with_one_state_the_later_stays_and_the_other_is_told() {
        let mut attached = Attached::default();
        let (first, its_signal) = enter(&mut attached, 1);
        attached.claim(STATE, 5, first).unwrap();
        let (early, _) = enter(&mut attached, 2);
        let refusal = attached.claim(STATE, 4, early).expect_err("the other attached it later");
        assert_eq!(refusal.code, RefusalCode::Superseded);
        assert!(!its_signal.is_superseded());
        let (second, _) = enter(&mut attached, 2);
        attached.claim(STATE, 6, second).unwrap();
        assert!(its_signal.is_superseded(), "the first is told");
        // When the first leaves, the state is still the second's.
        attached.remove(first, Some(STATE));
        let (third, _) = enter(&mut attached, 3);
        assert!(attached.claim(STATE, 5, third).is_err());
    }

    /// Subscribers that are away cost a broker nothing.
    #[test]
    fn nothing_is_left_of_subscriptions_that_have_gone() {
        let mut attached = Attached::default();
        let gone: Vec<_> = (0..1_000)
            .map(|client| {
                let (subscription, _) = enter(&mut attached, client);
                let state = SubscriptionId(client.into());
                attached.claim(state, 1, subscription).unwrap();
                (subscription, state)
            })
            .collect();
        gone.into_iter().for_each(|(subscription, state)| attached.remove(subscription, Some(state)));
        assert!(attached.signals.is_empty() && attached.states.is_empty() && attached.clients.is_empty());
    }
}
