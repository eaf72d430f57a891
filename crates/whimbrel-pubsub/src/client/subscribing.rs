//! A subscription, as a program has it.

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::error::ClientError;
use super::link::Link;
use super::options::{Durability, Subscribing};
use super::subscription::{Arrived, run};
use crate::coverage::{
    Count, Coverage, Delivery, Fate, Heard, Outstanding, Recovered, SubscriptionState, Told,
};
use crate::frame::Refusal;
use crate::message::{BrokerId, Origin, Publications};

/// The publishers whose repeated messages are recognised.
const MOST_PUBLISHERS: usize = 1_024;

/// Something that a subscription is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It is attached at a broker, of which this is the name.
    Attached(String),
    /// The durable subscription is attached, and these brokers of the cluster have not confirmed that they keep it. What they take of
    /// publishers before they do may not come. This comes after it was attached.
    Unconfirmed(Vec<BrokerId>),
    /// It has lost its broker, or was not served there, for this reason. It looks for one that serves it.
    Detached(String),
    /// The number of missed messages that it will get. This comes before them.
    Outstanding(Outstanding),
    /// A message.
    Message(Delivery),
    /// Messages that do not come, or not yet.
    Lost {
        /// Their fate.
        fate: Fate,
        /// Their number.
        count: Count,
    },
    /// It has got what it missed.
    Recovered(Recovered),
    /// The state names an origin that no broker here knows: what was published there is neither known to be lost nor to come.
    UnknownOrigin(Origin),
    /// It was refused, or ended by the broker. Nothing more comes.
    Refused(Refusal),
    /// The client has given up. Nothing more comes.
    Failed(ClientError),
}

/// A subscription. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    arrived: mpsc::Receiver<Arrived>,
    state: Option<SubscriptionState>,
    /// The coverage that is acknowledged, of a durable subscription.
    acknowledged: watch::Sender<Coverage>,
    /// The acknowledgement that was sent last.
    sent: watch::Receiver<Coverage>,
    /// Whether the state is the program's own.
    has_own_state: bool,
    publications: Publications<crate::message::Stamp>,
    /// The brokers that the program has yet to be told of.
    unconfirmed: Option<Vec<BrokerId>>,
    task: JoinHandle<()>,
}

pub(super) fn start(subscribing: Subscribing, link: watch::Receiver<Link>) -> Subscription {
    let (send, arrived) = mpsc::channel(subscribing.queue.max(1));
    let (state, has_own_state) = match &subscribing.durability {
        Durability::SemiDurable(state) => (state.clone(), true),
        Durability::Durable { state: Some(state), .. } => (Some(state.clone()), true),
        // What is acknowledged is known by a state, too.
        Durability::Durable { state: None, .. } => (Some(SubscriptionState::nameless()), false),
        Durability::Nondurable => (None, false),
    };
    let (acknowledged, acknowledging) = watch::channel(Coverage::default());
    let (sending, sent) = watch::channel(Coverage::default());
    let task = tokio::spawn(run(subscribing, link, send, (acknowledging, sending)));
    let publications = Publications::new(MOST_PUBLISHERS);
    Subscription { arrived, state, acknowledged, sent, has_own_state, publications, unconfirmed: None, task }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscription {
    /// Waits for the next event. `None`: it was refused or has failed, which was told, or the client was dropped. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            if let Some(brokers) = self.unconfirmed.take() {
                return Some(Event::Unconfirmed(brokers));
            }
            let arrived = self.arrived.recv().await?;
            if let Some(event) = self.take(arrived) {
                return Some(event);
            }
        }
    }

    /// Returns the next event, if one is there.
    pub fn try_recv(&mut self) -> Option<Event> {
        loop {
            if let Some(brokers) = self.unconfirmed.take() {
                return Some(Event::Unconfirmed(brokers));
            }
            let arrived = self.arrived.try_recv().ok()?;
            if let Some(event) = self.take(arrived) {
                return Some(event);
            }
        }
    }

    /// Returns the state of a semi-durable subscription: it covers what [`Subscription::recv`] has returned. Save it once you have done what
    /// the messages ask for. `None` if it did not come with one.
    pub fn state(&self) -> Option<&SubscriptionState> {
        self.state.as_ref().filter(|_| self.has_own_state)
    }

    /// Acknowledges all that [`Subscription::recv`] has returned: the broker need not keep it for this durable subscription any more. Call it
    /// once you have done what the messages ask for, and now and then: at most 1,000 messages come that were not acknowledged. Of another
    /// subscription, nothing is to be acknowledged.
    pub fn acknowledge(&self) {
        if let Some(state) = &self.state {
            self.acknowledged.send_if_modified(|acknowledged| {
                let is_new = acknowledged != state.coverage();
                if is_new {
                    acknowledged.clone_from(state.coverage());
                }
                is_new
            });
        }
    }

    /// Waits until the last acknowledgement was sent to a broker. A program that ends may lose it otherwise, and then gets messages again.
    pub async fn acknowledged(&mut self) {
        let last = self.acknowledged.borrow().clone();
        // An error says that nothing is sent any more.
        self.sent.wait_for(|sent| *sent == last).await.ok();
    }

    fn take(&mut self, arrived: Arrived) -> Option<Event> {
        let (channel, told) = match arrived {
            Arrived::Told(channel, told) => (channel, told),
            Arrived::Event(event) => return Some(event),
            Arrived::Attached(broker, channels, unconfirmed) => {
                if let Some(state) = &mut self.state {
                    state.note_channels(&channels);
                }
                self.unconfirmed = Some(unconfirmed).filter(|brokers| !brokers.is_empty());
                return Some(Event::Attached(broker));
            }
        };
        if let Some(state) = &mut self.state {
            match state.hear(channel, &told) {
                Ok(Heard::Repeated) => return None,
                Ok(Heard::New | Heard::Noted) => {}
                // It may come again after a return, which is better than not at all.
                Err(_) => {}
            }
        }
        match told {
            Told::Delivery(delivery) => self.is_first(&delivery).then_some(Event::Message(delivery)),
            Told::Covers(_) => None,
            Told::Fate { fate, count, .. } => Some(Event::Lost { fate, count }),
            Told::Outstanding(outstanding) => Some(Event::Outstanding(outstanding)),
            Told::Recovered(recovered) => Some(Event::Recovered(recovered)),
            Told::UnknownOrigin(origin) => Some(Event::UnknownOrigin(origin)),
        }
    }

    /// Whether a message is not one that was published twice, at two brokers that knew nothing of each other.
    fn is_first(&mut self, delivery: &Delivery) -> bool {
        let Some(publication) = delivery.message.publication() else { return true };
        let former = self.publications.find(publication).copied();
        self.publications.note(publication, delivery.stamp);
        former.is_none_or(|former| former == delivery.stamp)
    }
}
