//! The permissions of clients.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::watch;
use whimbrel::PublicKey;
use whimbrel_pubsub::topic::TopicFilter;

use crate::quota::{Pace, Paces, Quota};

/// The topics that a client may publish to and subscribe to, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Topics to publish to.
    pub publish: Vec<TopicFilter>,
    /// Filters to subscribe to: a subscription has to lie within one of them.
    pub subscribe: Vec<TopicFilter>,
    /// The most that the client may do.
    pub quota: Quota,
}

/// The permissions of all clients, which may change while they are connected.
#[derive(Debug)]
pub struct Access {
    rules: RwLock<Rules>,
    changes: watch::Sender<()>,
    paces: Paces<Option<PublicKey>>,
}

#[derive(Debug)]
struct Rules {
    clients: BTreeMap<PublicKey, Arc<Permissions>>,
    /// The permissions of clients that are not listed.
    others: Arc<Permissions>,
}

impl Rules {
    fn new(clients: BTreeMap<PublicKey, Permissions>, others: Permissions) -> Self {
        let clients = clients.into_iter().map(|(key, permissions)| (key, Arc::new(permissions)));
        Self { clients: clients.collect(), others: Arc::new(others) }
    }
}

impl Permissions {
    /// Every topic but those that begin with `$`.
    pub fn everything() -> Self {
        let all: Vec<TopicFilter> = "#".parse().into_iter().collect();
        Self { publish: all.clone(), subscribe: all, quota: Quota::default() }
    }

    /// Whether messages may be published to this topic.
    pub fn may_publish(&self, topic: &str) -> bool {
        self.publish.iter().any(|filter| filter.matches_text(topic))
    }

    /// Whether messages of this filter may be received.
    pub fn may_subscribe(&self, filter: &TopicFilter) -> bool {
        self.subscribe.iter().any(|permitted| permitted.covers(filter))
    }
}

impl Access {
    /// Permissions of listed clients, and of all others.
    pub fn new(clients: BTreeMap<PublicKey, Permissions>, others: Permissions) -> Self {
        let rules = RwLock::new(Rules::new(clients, others));
        Self { rules, changes: watch::Sender::default(), paces: Paces::default() }
    }

    /// The permissions of a client.
    pub fn of(&self, key: Option<&PublicKey>) -> Arc<Permissions> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(key.and_then(|key| rules.clients.get(key)).unwrap_or(&rules.others))
    }

    /// Takes other permissions. Publishers are judged by them from now on, and subscriptions that come. Those that are not permitted any
    /// more end.
    pub fn replace(&self, clients: BTreeMap<PublicKey, Permissions>, others: Permissions) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Rules::new(clients, others);
        self.changes.send_replace(());
    }

    /// Learns of other permissions.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// The pace of a client, at all of its sessions.
    pub(super) fn pace(&self, key: Option<PublicKey>) -> Arc<Pace> {
        self.paces.of(key, Instant::now())
    }
}
