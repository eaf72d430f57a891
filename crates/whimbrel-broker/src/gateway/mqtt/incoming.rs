//! Messages of a client.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use whimbrel_pubsub::frame::RefusalCode;
use whimbrel_pubsub::message::{Message, Publication, PublisherId};

use super::admission::Admitted;
use super::answers::{Answers, Asked, fault_of};
use super::codec::{Acknowledged, Fault, Out, Publish, Qos, Reason, Version};
use super::core::Gateway;
use super::exactly_once::{Coming, ExactlyOnce, Seen};
use super::kept::Received;
use super::message::Content;
use crate::hub::{Client, Finding, NotTaken, Publishing, SessionName, random};

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
    once: ExactlyOnce,
    answers: Answers,
    /// A message that waits for the disk to have room.
    waiting: Option<Coming>,
    /// Whether the log had no room.
    is_busy: bool,
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
        (session, received): (Option<SessionName>, BTreeMap<u16, Received>),
    ) -> Self {
        let once = ExactlyOnce::new(Arc::clone(&gateway.hub), session, received);
        let publisher = PublisherId(u128::from(random()) << 64 | u128::from(random()));
        let (aliases, finding) = (BTreeMap::new(), Finding::default());
        let publishing = Publishing::new(Arc::clone(&gateway.hub), Arc::clone(known));
        Self {
            gateway,
            admitted,
            version,
            aliases,
            once,
            answers: Answers::default(),
            waiting: None,
            is_busy: false,
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
        self.waiting.is_some() || self.is_busy
    }

    /// Whether a message at QoS 2 belongs to the part of the session that is kept on disk.
    pub(super) fn keeps(&self, publish: &Publish<'_>) -> bool {
        publish.qos == Qos::ExactlyOnce && self.once.keeps(self.known_topic(publish))
    }

    /// Waits until a message that waits may be tried again.
    pub(super) fn room(&self) -> impl Future<Output = ()> + use<> {
        let (share, is_busy) = (Arc::clone(self.admitted.share()), self.is_busy);
        async move {
            if share.is_full() && !is_busy {
                share.room().await;
            } else {
                // The log is busy with what is others'.
                sleep(AGAIN).await;
            }
        }
    }

    /// Waits until there is something to answer, or to go on with. Dropping it loses nothing.
    pub(super) async fn known(&mut self) {
        tokio::select! {
            () = self.answers.known() => {}
            () = self.once.known() => {}
        }
    }

    /// Waits for the messages at QoS 2 that are being stored. Returns those that came and were not released.
    ///
    /// For a stored message the client sends only the identifier again, whether it was answered or not.
    pub(super) async fn into_received(mut self) -> BTreeMap<u16, Received> {
        self.once.give_up();
        while self.once.is_storing() {
            self.answers.known().await;
            while let Some((asked, outcome)) = self.answers.take() {
                self.once.settle(asked, outcome.is_ok());
            }
        }
        self.once.into_received()
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
        let mut former = None;
        if publish.qos == Qos::ExactlyOnce {
            match self.once.seen(publish.id) {
                Seen::No => {}
                Seen::Perhaps(publication) => former = Some(publication),
                // The answer to the first is the answer to this.
                Seen::Coming => return Ok(()),
                Seen::Received => {
                    out.acknowledge(Acknowledged::Received, publish.id, Reason::SUCCESS, "");
                    return Ok(());
                }
            }
            if self.version == Version::V5 && self.once.len() >= MOST_UNRELEASED.into() && former.is_none() {
                let why = "more messages at QoS 2 are waiting than the broker accepts";
                return Err(Fault::new(Reason::RECEIVE_MAXIMUM, why));
            }
        }
        let asked = Asked { qos: publish.qos, id: publish.id };
        let is_named = is_named || asked.qos == Qos::ExactlyOnce && self.once.keeps(&topic);
        let publication = former.or_else(|| is_named.then(|| self.next_publication()));
        match self.message(publish, &topic, publication) {
            Ok(message) => self.hand_over(Coming { asked, message, charge: None })?,
            Err(fault) => self.refuse(asked, fault)?,
        }
        self.answer(out)
    }

    /// Goes on with what waited, and answers what is known.
    ///
    /// # Errors
    /// The client has to be sent away.
    pub(super) fn go_on(&mut self, out: &mut Out) -> Result<(), Fault> {
        self.is_busy = false;
        self.publish_noted()?;
        if let Some(coming) = self.waiting.take() {
            self.hand_over(coming)?;
            self.admitted.share().pass_on();
        }
        while let Some(released) = self.once.next_released() {
            out.acknowledge(Acknowledged::Complete, released?, Reason::SUCCESS, "");
        }
        self.answer(out)
    }

    /// Wakes who wants the messages that were taken since it was last called.
    pub(super) fn wake(&mut self) {
        self.gateway.hub.wake_for_taken(&mut self.finding);
    }

    /// The client releases a message at QoS 2.
    ///
    /// # Errors
    /// That cannot be kept now.
    pub(super) fn release(&mut self, id: u16, out: &mut Out) -> Result<(), Fault> {
        if let Some(reason) = self.once.release(id)? {
            out.acknowledge(Acknowledged::Complete, id, reason, "");
        }
        Ok(())
    }

    fn next_publication(&mut self) -> Publication {
        self.published += 1;
        Publication { publisher: self.publisher, number: self.published }
    }

    fn message(
        &mut self,
        publish: &Publish<'_>,
        topic: &str,
        publication: Option<Publication>,
    ) -> Result<Message, Fault> {
        let message = Content::of(publish, topic, publication).message()?;
        self.admitted.may_publish(topic)?;
        self.admitted.spend(message.encoded().len())?;
        Ok(message)
    }

    /// Hands a message to the hub. It waits if there is no room on its way to the disk, or if its identifier has to be written before.
    fn hand_over(&mut self, mut coming: Coming) -> Result<(), Fault> {
        let share = self.admitted.share();
        if share.is_full() {
            self.waiting = Some(coming);
            return Ok(());
        }
        if coming.asked.qos == Qos::ExactlyOnce && self.once.must_wait(&coming.message) {
            coming.charge = Some(share.charge(coming.message.encoded().len()));
            return self.once.note(coming).map_err(fault_of);
        }
        if let Some(coming) = self.try_publish(coming)? {
            self.waiting = Some(coming);
        }
        Ok(())
    }

    /// Publishes messages whose identifiers are on disk.
    fn publish_noted(&mut self) -> Result<(), Fault> {
        while let Some(noted) = self.once.next_noted() {
            match noted {
                Ok(coming) => {
                    if let Some(coming) = self.try_publish(coming)? {
                        self.once.put_back(coming);
                        break;
                    }
                }
                Err((asked, fault)) => self.answers.refused(asked, fault),
            }
        }
        Ok(())
    }

    /// Publishes a message, unless the log has no room. Then it comes back.
    fn try_publish(&mut self, coming: Coming) -> Result<Option<Coming>, Fault> {
        let Coming { asked, message, charge } = coming;
        match self.gateway.hub.take_safely(message.clone(), &mut self.finding) {
            Ok((_, storing)) => {
                if asked.qos == Qos::ExactlyOnce {
                    self.once.taken(asked.id);
                }
                let bytes = message.encoded().len();
                let charge = charge.or_else(|| {
                    let share = self.admitted.share();
                    (!storing.is_safe()).then(|| share.charge(bytes))
                });
                self.answers.taken(asked, storing, charge);
            }
            Err(NotTaken::Busy(_)) => {
                self.is_busy = true;
                return Ok(Some(Coming { asked, message, charge }));
            }
            // That the disk is full is no mistake of the client.
            Err(NotTaken::Refused(refusal)) if refusal.code == RefusalCode::Unavailable => {
                self.answers.refused(asked, fault_of(refusal));
            }
            Err(NotTaken::Refused(refusal)) => self.refuse(asked, fault_of(refusal))?,
        }
        Ok(None)
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
            self.once.settle(asked, outcome.is_ok());
            let (reason, why) = match outcome {
                Ok(()) => (Reason::SUCCESS, "".into()),
                // MQTT 3.1.1 has no refusal: the client sends it again when it comes back.
                Err(fault) if self.version == Version::V3 && asked.qos != Qos::AtMostOnce => {
                    return Err(fault);
                }
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

    /// The topic that a message names, itself or by a number.
    fn known_topic<'a>(&'a self, publish: &Publish<'a>) -> &'a str {
        let known = publish.properties.topic_alias.and_then(|alias| self.aliases.get(&alias));
        if publish.topic.is_empty() { known.map_or("", String::as_str) } else { publish.topic }
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
