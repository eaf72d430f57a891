//! The permissions of clients.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use whimbrel::PublicKey;
use whimbrel_pubsub::topic::TopicFilter;

/// The topics that a client may publish to and subscribe to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Topics to publish to.
    pub publish: Vec<TopicFilter>,
    /// Filters to subscribe to: a subscription has to lie within one of them.
    pub subscribe: Vec<TopicFilter>,
}

/// The permissions of all clients, which may change while they are connected.
#[derive(Debug)]
pub struct Access(RwLock<Rules>);

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
        Self { publish: all.clone(), subscribe: all }
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
        Self(RwLock::new(Rules::new(clients, others)))
    }

    /// The permissions of a client.
    pub fn of(&self, key: Option<&PublicKey>) -> Arc<Permissions> {
        let rules = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(key.and_then(|key| rules.clients.get(key)).unwrap_or(&rules.others))
    }

    /// Takes other permissions. Publishers are judged by them from now on, and subscriptions that come.
    pub fn replace(&self, clients: BTreeMap<PublicKey, Permissions>, others: Permissions) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Rules::new(clients, others);
    }
}
