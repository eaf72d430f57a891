//! Messages of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{Publication, PublisherId};

use super::Gateway;
use super::admission::Admitted;
use super::codec::{Acknowledged, Fault, Out, Publish, Qos, Reason, Version};
use super::message::Content;
use crate::hub::{Client, Finding, Publishing, random};

/// The most topics to which a client gives a number.
pub(super) const MOST_ALIASES: u16 = 16;
/// The most messages at QoS 2 that a client of MQTT 5 may have sent and not released.
pub(super) const MOST_UNRELEASED: u16 = 1_024;

/// The state of the messages that a client sends.
#[derive(Debug)]
pub(super) struct Incoming {
    gateway: Arc<Gateway>,
    admitted: Admitted,
    version: Version,
    aliases: BTreeMap<u16, String>,
    /// Packet identifiers at QoS 2 that were not released.
    received: BTreeSet<u16>,
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
        Self { gateway, admitted, version, aliases, received, publisher, published: 0, finding, publishing }
    }

    /// By this the client's own messages are known.
    pub(super) fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// Until when nothing more of the client is taken.
    pub(super) fn held(&self) -> Option<Instant> {
        self.admitted.held()
    }

    /// Messages at QoS 2 that came and were not released.
    pub(super) fn into_received(self) -> BTreeSet<u16> {
        self.received
    }

    /// Takes a message and answers. Have [`Incoming::wake`] called once what came together is taken. With `is_named` it carries the name of its publisher, for a subscription that does not want it.
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
            if self.version == Version::V5 && self.received.len() >= MOST_UNRELEASED.into() {
                let why = "more messages at QoS 2 wait than the broker takes";
                return Err(Fault::new(Reason::RECEIVE_MAXIMUM, why));
            }
        }
        let outcome = self.take(publish, &topic, is_named);
        self.publishing.on_published(outcome.is_ok().into(), outcome.is_err().into());
        let fault = outcome.err();
        let is_refused = fault.is_some();
        // MQTT 3.1.1 has no refusal, and QoS 0 no answer.
        if is_refused && (self.version == Version::V3 || publish.qos == Qos::AtMostOnce) {
            return fault.map_or(Ok(()), Err);
        }
        let (reason, why) = fault.map_or((Reason::SUCCESS, "".into()), |fault| (fault.reason, fault.why));
        match publish.qos {
            Qos::AtMostOnce => {}
            Qos::AtLeastOnce => out.acknowledge(Acknowledged::Publish, publish.id, reason, &why),
            Qos::ExactlyOnce => {
                if !is_refused {
                    self.received.insert(publish.id);
                }
                out.acknowledge(Acknowledged::Received, publish.id, reason, &why);
            }
        }
        Ok(())
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

    fn take(&mut self, publish: &Publish<'_>, topic: &str, is_named: bool) -> Result<(), Fault> {
        let publication = is_named.then(|| {
            self.published += 1;
            Publication { publisher: self.publisher, number: self.published }
        });
        let message = Content::of(publish, topic, publication).message()?;
        self.admitted.may_publish(topic)?;
        self.admitted.spend(message.encoded().len())?;
        self.gateway.hub.take(message, &mut self.finding).map(drop).map_err(fault_of)
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
        RefusalCode::Limit => Reason::QUOTA,
        RefusalCode::NotPermitted => Reason::NOT_AUTHORIZED,
        _ => Reason::IMPLEMENTATION,
    };
    Fault::new(reason, refusal.reason)
}
