//! The messages of a durable subscription that a client has.

use std::sync::{Arc, Mutex, PoisonError};

use whimbrel_pubsub::coverage::Cover;
use whimbrel_pubsub::message::{ChannelId, Stamp};

use crate::store::{MessageName, SubscriptionName};

/// The messages of a subscription that a client has, until the store is told.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(Mutex<Vec<(ChannelId, Cover)>>);

/// A message whose acknowledgement moves its subscription's coverage.
#[derive(Debug)]
pub(super) struct Mark {
    acknowledged: Arc<Acknowledged>,
    subscription: Arc<SubscriptionName>,
    channel: ChannelId,
    cover: Cover,
}

impl Acknowledged {
    pub(super) fn note(&self, channel: ChannelId, cover: Cover) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((channel, cover));
    }

    pub(super) fn take(&self) -> Vec<(ChannelId, Cover)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Mark {
    pub(super) fn new(
        acknowledged: &Arc<Acknowledged>,
        subscription: &Arc<SubscriptionName>,
        channel: ChannelId,
        cover: Cover,
    ) -> Self {
        let (acknowledged, subscription) = (Arc::clone(acknowledged), Arc::clone(subscription));
        Self { acknowledged, subscription, channel, cover }
    }

    /// The message's name on disk.
    pub(super) fn message(&self, stamp: &Stamp) -> MessageName {
        let (subscription, channel) = ((*self.subscription).clone(), self.channel);
        MessageName { subscription, channel, origin: stamp.origin, sequence: stamp.sequence }
    }

    /// The cover of the message, with its subscription and channel.
    pub(super) fn has(&self) -> (&SubscriptionName, ChannelId, Cover) {
        (&*self.subscription, self.channel, self.cover)
    }

    /// The client has the message.
    pub(super) fn settle(self) {
        self.acknowledged.note(self.channel, self.cover);
    }
}
