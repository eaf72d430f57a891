//! Messages of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{Message, Publication, PublisherId};

use super::Gateway;
use super::admission::Admitted;
use super::answers::{Answers, Asked};
use super::codec::{Acknowledged, Fault, Out, Publish, Qos, Reason, Version};
use super::message::Content;
use crate::hub::{Client, Finding, NotTaken, Publishing, random};

/// The most topics to which a client gives a number.
pub(super) const MOST_ALIASES: u16 = 16;
/// The most messages at QoS 2 that a client of MQTT 5 may have sent and not released.
pub(super) const MOST_UNRELEASED: u16 = 1_024;
/// The time between two tries to append to a log that is busy.
const AGAIN: Duration = Duration::from_millis(2);

/// The state of the messages that a client sends.
#[derive(Debug)]
pub(super) struct Incoming {
    gateway: Arc<Gateway>,
    admitted: Admitted,
    version: Version,
    aliases: BTreeMap<u16, String>,
    /// Packet identifiers at QoS 2 that were received, and not released.
    received: BTreeSet<u16>,
    /// Packet identifiers at QoS 2 of messages that are not stored yet.
    coming: BTreeSet<u16>,
    answers: Answers,
    /// A message that waits for the disk to have room.
    waiting: Option<(Asked, Message)>,
    publisher: PublisherId,
    published: u64,
    finding: Finding,
    publishing: Publishing,
}

impl Incoming {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        (admitted, known): (Admitted, &Arc<Client>),
        version: Version,
        received: BTreeSet<u16>,
    ) -> Self {
        let publisher = PublisherId(u128::from(random()) << 64 | u128::from(random()));
        let (aliases, finding) = (BTreeMap::new(), Finding::default());
        let publishing = Publishing::new(Arc::clone(&gateway.hub), Arc::clone(known));
        Self {
            gateway,
            admitted,
            version,
            aliases,
            received,
            coming: BTreeSet::new(),
            answers: Answers::default(),
            waiting: None,
            publisher,
            published: 0,
            finding,
            publishing,
        }
    }

    /// By this the client's own messages are known.
    pub(super) fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// Until when nothing more of the client is taken.
    pub(super) fn held(&self) -> Option<Instant> {
        self.admitted.held()
    }

    /// Whether a message waits for the disk to have room. Nothing more of the client is taken then, and TCP slows it down.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Waits until a message that waits may be tried again.
    pub(super) fn room(&self) -> impl Future<Output = ()> + use<> {
        let share = Arc::clone(self.admitted.share());
        async move {
            if share.is_full() {
                share.room().await;
            } else {
                // The log is busy with what is others'.
                sleep(AGAIN).await;
            }
        }
    }

    /// Waits until an answer is known. Dropping it loses none.
    pub(super) async fn known(&mut self) {
        self.answers.known().await;
    }

    /// Waits for the messages at QoS 2 that are being stored. Returns the identifiers of all that were received and not released.
    ///
    /// Of those that are stored the client will send no more than the identifier again, whether it was answered or not.
    pub(super) async fn into_received(mut self) -> BTreeSet<u16> {
        while !self.coming.is_empty() {
            self.answers.known().await;
            while let Some((asked, outcome)) = self.answers.take() {
                self.settle(asked, outcome.is_ok());
            }
        }
        self.received
    }

    /// Takes a message. Have [`Incoming::wake`] called once what came together is taken. With `is_named` it carries the name of its
    /// publisher, for a subscription that does not want it.
    ///
    /// # Errors
    /// The client has to be sent away.
    pub(super) fn publish(
        &mut self,
        publish: &Publish<'_>,
        is_named: bool,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let topic = self.topic_of(publish)?;
        if publish.qos == Qos::ExactlyOnce {
            if self.received.contains(&publish.id) {
                out.acknowledge(Acknowledged::Received, publish.id, Reason::SUCCESS, "");
                return Ok(());
            }
            // The answer to the first is the answer to this.
            if self.coming.contains(&publish.id) {
                return Ok(());
            }
            let unreleased = self.received.len() + self.coming.len();
            if self.version == Version::V5 && unreleased >= MOST_UNRELEASED.into() {
                let why = "more messages at QoS 2 wait than the broker takes";
                return Err(Fault::new(Reason::RECEIVE_MAXIMUM, why));
            }
        }
        let asked = Asked { qos: publish.qos, id: publish.id };
        match self.message(publish, &topic, is_named) {
            Ok(message) => self.hand_over(asked, message)?,
            Err(fault) => self.refuse(asked, fault)?,
        }
        self.answer(out)
    }

    /// Tries again what waited, and answers what is known.
    ///
    /// # Errors
    /// The client has to be sent away.
    pub(super) fn go_on(&mut self, out: &mut Out) -> Result<(), Fault> {
        if let Some((asked, message)) = self.waiting.take() {
            self.hand_over(asked, message)?;
            self.admitted.share().pass_on();
        }
        self.answer(out)
    }

    /// Wakes who wants the messages that were taken since it was last called.
    pub(super) fn wake(&mut self) {
        self.gateway.hub.wake_for_taken(&mut self.finding);
    }

    /// The client releases a message at QoS 2.
    pub(super) fn release(&mut self, id: u16, out: &mut Out) {
        let reason = if self.received.remove(&id) { Reason::SUCCESS } else { Reason::ID_NOT_FOUND };
        out.acknowledge(Acknowledged::Complete, id, reason, "");
    }

    fn message(&mut self, publish: &Publish<'_>, topic: &str, is_named: bool) -> Result<Message, Fault> {
        let publication = is_named.then(|| {
            self.published += 1;
            Publication { publisher: self.publisher, number: self.published }
        });
        let message = Content::of(publish, topic, publication).message()?;
        self.admitted.may_publish(topic)?;
        self.admitted.spend(message.encoded().len())?;
        Ok(message)
    }

    /// Hands a message to the hub. It waits here if the log is busy.
    fn hand_over(&mut self, asked: Asked, message: Message) -> Result<(), Fault> {
        let share = self.admitted.share();
        if share.is_full() {
            self.waiting = Some((asked, message));
            return Ok(());
        }
        let bytes = message.encoded().len();
        match self.gateway.hub.take_safely(message.clone(), &mut self.finding) {
            Ok((_, storing)) => {
                if asked.qos == Qos::ExactlyOnce {
                    self.coming.insert(asked.id);
                }
                let charge = (!storing.is_safe()).then(|| share.charge(bytes));
                self.answers.taken(asked, storing, charge);
            }
            Err(NotTaken::Busy(_)) => self.waiting = Some((asked, message)),
            // That the disk is full is no mistake of the client.
            Err(NotTaken::Refused(refusal)) if refusal.code == RefusalCode::Unavailable => {
                self.answers.refused(asked, fault_of(refusal));
            }
            Err(NotTaken::Refused(refusal)) => self.refuse(asked, fault_of(refusal))?,
        }
        Ok(())
    }

    /// Refuses a message for a mistake of the client. At QoS 0 nothing else could tell it.
    fn refuse(&mut self, asked: Asked, fault: Fault) -> Result<(), Fault> {
        if asked.qos == Qos::AtMostOnce {
            self.publishing.on_published(0, 1);
            return Err(fault);
        }
        self.answers.refused(asked, fault);
        Ok(())
    }

    /// Gives the answers that are known.
    fn answer(&mut self, out: &mut Out) -> Result<(), Fault> {
        while let Some((asked, outcome)) = self.answers.take() {
            self.publishing.on_published(outcome.is_ok().into(), outcome.is_err().into());
            self.settle(asked, outcome.is_ok());
            let (reason, why) = match outcome {
                Ok(()) => (Reason::SUCCESS, "".into()),
                // MQTT 3.1.1 has no refusal: the client sends it again when it comes back.
                Err(fault) if self.version == Version::V3 && asked.qos != Qos::AtMostOnce => return Err(fault),
                Err(fault) => (fault.reason, fault.why),
            };
            match asked.qos {
                Qos::AtMostOnce => {}
                Qos::AtLeastOnce => out.acknowledge(Acknowledged::Publish, asked.id, reason, &why),
                Qos::ExactlyOnce => out.acknowledge(Acknowledged::Received, asked.id, reason, &why),
            }
        }
        Ok(())
    }

    /// Knows whether a message was stored.
    fn settle(&mut self, asked: Asked, is_stored: bool) {
        if asked.qos == Qos::ExactlyOnce && self.coming.remove(&asked.id) && is_stored {
            self.received.insert(asked.id);
        }
    }

    /// The topic of a message, which may have given it a number or name it by one.
    fn topic_of(&mut self, publish: &Publish<'_>) -> Result<String, Fault> {
        let Some(alias) = publish.properties.topic_alias else {
            if publish.topic.is_empty() && self.version == Version::V5 {
                return Err(Fault::protocol("the message has neither a topic nor an alias of one"));
            }
            if publish.topic.is_empty() || publish.topic.contains(['+', '#']) {
                return Err(Fault::new(Reason::TOPIC_INVALID, "the topic is empty or has a wildcard"));
            }
            return Ok(publish.topic.to_owned());
        };
        if !(1..=MOST_ALIASES).contains(&alias) {
            return Err(Fault::new(Reason::TOPIC_ALIAS, "a topic alias is 1 to 16 here"));
        }
        if publish.topic.is_empty() {
            let known = self.aliases.get(&alias).cloned();
            return known.ok_or_else(|| Fault::protocol("the topic alias was not set"));
        }
        if publish.topic.contains(['+', '#']) {
            return Err(Fault::new(Reason::TOPIC_INVALID, "the topic has a wildcard"));
        }
        self.aliases.insert(alias, publish.topic.to_owned());
        Ok(publish.topic.to_owned())
    }
}

/// A refusal of the hub, in the standard's codes.
pub(super) fn fault_of(refusal: Refusal) -> Fault {
    let reason = match refusal.code {
        RefusalCode::Limit | RefusalCode::Unavailable => Reason::QUOTA,
        RefusalCode::NotPermitted => Reason::NOT_AUTHORIZED,
        _ => Reason::IMPLEMENTATION,
    };
    Fault::new(reason, refusal.reason)
}
