//! The rules as they are now: those of the file, of which the ones with conditions take part while these hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::policy::{Condition, Conditions, Network, Rule, Rules};

/// The rules as they are now.
#[derive(Debug)]
pub(super) struct Ruling {
    state: Mutex<State>,
    now: watch::Sender<Arc<Rules>>,
}

#[derive(Debug)]
struct State {
    /// The peer of rules that name none.
    first: Option<Arc<str>>,
    /// By the peer's name.
    conditions: BTreeMap<Arc<str>, Conditions>,
}

impl Ruling {
    pub(super) fn new(first: Arc<str>, rules: Rules) -> Self {
        let (now, _) = watch::channel(Arc::default());
        let state = Mutex::new(State { first: None, conditions: BTreeMap::new() });
        let this = Self { state, now };
        this.set(Some(first), rules);
        this
    }

    /// Returns the rules, and notice of each change.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<Rules>> {
        self.now.subscribe()
    }

    pub(super) fn now(&self) -> Arc<Rules> {
        Arc::clone(&self.now.borrow())
    }

    /// Sets other rules. Those that name no peer are of `first`. Conditions that hold and are still asked for go on.
    pub(super) fn set(&self, first: Option<Arc<str>>, rules: Rules) {
        let mut state = self.lock();
        state.first = first;
        let mut asked: BTreeMap<Arc<str>, Vec<&Condition>> = BTreeMap::new();
        for rule in rules.all() {
            if !rule.when.is_empty() {
                asked.entry(state.peer(rule)).or_default().extend(&rule.when);
            }
        }
        let (none, before) = (Conditions::default(), std::mem::take(&mut state.conditions));
        let renewed = asked.into_iter().map(|(peer, asked)| {
            let known = Conditions::new(asked, before.get(&peer).unwrap_or(&none));
            (peer, known)
        });
        state.conditions = renewed.collect();
        self.publish(&rules, &state);
    }

    /// Returns the peers towards which the network has to be looked at.
    pub(super) fn peers(&self) -> Vec<Arc<str>> {
        self.lock().conditions.keys().cloned().collect()
    }

    /// Takes a sample, so long after the last. Returns the conditions that begin (`true`) or end now.
    pub(super) fn sample(&self, peer: &str, network: &Network, since: Duration) -> Vec<(Condition, bool)> {
        let mut state = self.lock();
        let changed =
            state.conditions.get_mut(peer).map(|known| known.sample(network, since)).unwrap_or_default();
        if !changed.is_empty() {
            self.publish(&self.now(), &state);
        }
        changed
    }

    fn publish(&self, rules: &Rules, state: &State) {
        let holds =
            |rule: &Rule| state.conditions.get(&state.peer(rule)).is_some_and(|known| known.hold(&rule.when));
        self.now.send_replace(Arc::new(rules.under(holds)));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the peer of a rule. Without any, nothing is known of the network.
    fn peer(&self, rule: &Rule) -> Arc<str> {
        rule.peer.as_deref().map(Arc::from).or_else(|| self.first.clone()).unwrap_or_default()
    }
}
