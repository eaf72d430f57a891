//! The rules as they are now: those of the file, of which the ones with conditions take part while these hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::policy::{Condition, Conditions, Network, Rule, Rules};

/// The rules as they are now.
#[derive(Debug)]
pub(super) struct Ruling {
    /// The peer of rules that name none.
    first: Arc<str>,
    /// By the peer's name.
    conditions: Mutex<BTreeMap<Arc<str>, Conditions>>,
    now: watch::Sender<Arc<Rules>>,
}

impl Ruling {
    pub(super) fn new(first: Arc<str>, rules: Rules) -> Self {
        let (now, _) = watch::channel(Arc::default());
        let this = Self { first, conditions: Mutex::default(), now };
        this.set(rules);
        this
    }

    /// Returns the rules, and notice of each change.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<Rules>> {
        self.now.subscribe()
    }

    pub(super) fn now(&self) -> Arc<Rules> {
        Arc::clone(&self.now.borrow())
    }

    /// Sets other rules. Conditions that hold and are still asked for go on.
    pub(super) fn set(&self, rules: Rules) {
        let mut conditions = self.lock();
        let mut asked: BTreeMap<Arc<str>, Vec<&Condition>> = BTreeMap::new();
        for rule in rules.all() {
            if !rule.when.is_empty() {
                asked.entry(self.peer(rule)).or_default().extend(&rule.when);
            }
        }
        let (none, before) = (Conditions::default(), std::mem::take(&mut *conditions));
        let renewed = asked.into_iter().map(|(peer, asked)| {
            let known = Conditions::new(asked, before.get(&peer).unwrap_or(&none));
            (peer, known)
        });
        *conditions = renewed.collect();
        self.publish(&rules, &conditions);
    }

    /// Returns the peers towards which the network has to be looked at.
    pub(super) fn peers(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// Takes a sample, so long after the last. Returns the conditions that begin (`true`) or end now.
    pub(super) fn sample(&self, peer: &str, network: &Network, since: Duration) -> Vec<(Condition, bool)> {
        let mut conditions = self.lock();
        let changed = conditions.get_mut(peer).map(|known| known.sample(network, since)).unwrap_or_default();
        if !changed.is_empty() {
            self.publish(&self.now(), &conditions);
        }
        changed
    }

    fn publish(&self, rules: &Rules, conditions: &BTreeMap<Arc<str>, Conditions>) {
        let holds =
            |rule: &Rule| conditions.get(&self.peer(rule)).is_some_and(|known| known.hold(&rule.when));
        self.now.send_replace(Arc::new(rules.under(holds)));
    }

    fn peer(&self, rule: &Rule) -> Arc<str> {
        rule.peer.as_deref().map_or_else(|| Arc::clone(&self.first), Arc::from)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Conditions>> {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
