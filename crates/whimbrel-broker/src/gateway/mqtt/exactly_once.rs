//! Messages at QoS 2 that a client sends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use whimbrel_pubsub::frame::Refusal;
use whimbrel_pubsub::message::{Message, Publication};

use super::answers::{Asked, fault_of, full};
use super::codec::{Fault, Qos, Reason};
use super::kept::Received;
use crate::hub::{Hub, SessionName};
use crate::share::Charge;
use crate::store::Written;

/// A message of a client on its way to the hub.
#[derive(Debug)]
pub(super) struct Coming {
    pub(super) asked: Asked,
    pub(super) message: Message,
    /// Its part of its client's share.
    pub(super) charge: Option<Charge>,
}

/// Whether the broker has seen a packet identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// No.
    No,
    /// Its message is being stored.
    Coming,
    /// Its message was taken, and it was not released.
    Received,
    /// Its message may have been published under this name before the broker was started.
    Perhaps(Publication),
}

/// The packet identifiers of a client's messages at QoS 2.
///
/// A session that is kept on disk has those of durable channels there. They are written before the message is published, so that it is not
/// published twice. They stay until it is released, so that another message may then have its identifier.
#[derive(Debug)]
pub(super) struct ExactlyOnce {
    hub: Arc<Hub>,
    /// The session, if it is kept beyond the connection.
    session: Option<SessionName>,
    received: BTreeMap<u16, Received>,
    /// Those that are not stored yet, with the names under which they are on disk.
    coming: BTreeMap<u16, Option<Publication>>,
    /// Messages whose identifiers are being written, and those behind them.
    noted: VecDeque<(Coming, Option<Written>)>,
    /// Identifiers that were released, while that is being written.
    released: VecDeque<(u16, Written)>,
}

impl ExactlyOnce {
    pub(super) fn new(
        hub: Arc<Hub>,
        session: Option<SessionName>,
        received: BTreeMap<u16, Received>,
    ) -> Self {
        let (coming, noted, released) = (BTreeMap::new(), VecDeque::new(), VecDeque::new());
        Self { hub, session, received, coming, noted, released }
    }

    /// Whether identifiers of messages to this topic are kept on disk.
    pub(super) fn keeps(&self, topic: &str) -> bool {
        self.session.is_some() && self.hub.is_stored(topic)
    }

    pub(super) fn seen(&self, id: u16) -> Seen {
        if self.coming.contains_key(&id) {
            return Seen::Coming;
        }
        match self.received.get(&id) {
            None => Seen::No,
            Some(Received::Perhaps(publication)) => Seen::Perhaps(*publication),
            Some(_) => Seen::Received,
        }
    }

    /// The number of messages that were not released.
    pub(super) fn len(&self) -> usize {
        self.received.len() + self.coming.len()
    }

    /// Whether a message has to wait here until identifiers are written, its own or an earlier one.
    pub(super) fn must_wait(&self, message: &Message) -> bool {
        !self.noted.is_empty() || message.publication().is_some() && self.keeps(message.topic())
    }

    /// Has a message wait until its identifier is written.
    pub(super) fn note(&mut self, coming: Coming) -> Result<(), Refusal> {
        let name = coming.message.publication().filter(|_| self.keeps(coming.message.topic()));
        let mut written = None;
        if let (Some(session), Some(name)) = (&self.session, name) {
            self.hub.note_received(session, coming.asked.id, Some(name));
            written = Some(self.hub.written()?);
        }
        self.coming.insert(coming.asked.id, name);
        self.noted.push_back((coming, written));
        Ok(())
    }

    /// The first message whose identifier is written, or why it cannot be.
    pub(super) fn next_noted(&mut self) -> Option<Result<Coming, (Asked, Fault)>> {
        let (_, written) = self.noted.front()?;
        let outcome = written.as_ref().map_or(Some(Ok(())), Written::outcome)?;
        let (coming, _) = self.noted.pop_front()?;
        let asked = coming.asked;
        Some(outcome.map(|()| coming).map_err(|error| (asked, full(error))))
    }

    /// The log has no room for a message whose identifier is written.
    pub(super) fn put_back(&mut self, coming: Coming) {
        self.noted.push_front((coming, None));
    }

    /// A message without a name on disk was handed over.
    pub(super) fn taken(&mut self, id: u16) {
        self.coming.entry(id).or_default();
    }

    /// The outcome of a message is known.
    pub(super) fn settle(&mut self, asked: Asked, is_stored: bool) {
        if asked.qos != Qos::ExactlyOnce {
            return;
        }
        match self.coming.remove(&asked.id) {
            Some(Some(_)) if is_stored => drop(self.received.insert(asked.id, Received::OnDisk)),
            Some(None) if is_stored => drop(self.received.insert(asked.id, Received::InMemory)),
            // The client may send it once more. It is not in the log, so its old name does no harm.
            Some(Some(_)) => {
                self.received.remove(&asked.id);
                self.forget(asked.id);
            }
            _ => {}
        }
    }

    /// The client releases a message. Returns the answer; `None` if it comes later.
    pub(super) fn release(&mut self, id: u16) -> Result<Option<Reason>, Fault> {
        if self.released.iter().any(|(released, _)| *released == id) {
            return Ok(None);
        }
        match self.received.remove(&id) {
            None => Ok(Some(Reason::ID_NOT_FOUND)),
            Some(Received::InMemory) => Ok(Some(Reason::SUCCESS)),
            Some(Received::OnDisk | Received::Perhaps(_)) => {
                self.forget(id);
                let written = self.hub.written().map_err(fault_of)?;
                self.released.push_back((id, written));
                Ok(None)
            }
        }
    }

    /// The first identifier of which it is written that it was released.
    pub(super) fn next_released(&mut self) -> Option<Result<u16, Fault>> {
        let (_, written) = self.released.front()?;
        let outcome = written.outcome()?;
        let (id, _) = self.released.pop_front()?;
        // The client releases it again when it comes back.
        Some(outcome.map(|()| id).map_err(|error| {
            self.received.insert(id, Received::OnDisk);
            full(error)
        }))
    }

    /// Waits until something is written; for good if nothing is to be. Dropping it loses nothing.
    pub(super) async fn known(&mut self) {
        let noted = self.noted.front_mut().and_then(|(_, written)| written.as_mut());
        let released = self.released.front_mut().map(|(_, written)| written);
        match (noted, released) {
            (Some(noted), Some(released)) => tokio::select! {
                () = noted.known() => {}
                () = released.known() => {}
            },
            (Some(written), None) | (None, Some(written)) => written.known().await,
            (None, None) => std::future::pending().await,
        }
    }

    /// Gives up messages that were not handed over: if they come again, they are published under the names that are on disk.
    pub(super) fn give_up(&mut self) {
        for (coming, _) in std::mem::take(&mut self.noted) {
            if let Some(Some(name)) = self.coming.remove(&coming.asked.id) {
                self.received.insert(coming.asked.id, Received::Perhaps(name));
            }
        }
    }

    /// Whether messages are being stored.
    pub(super) fn is_storing(&self) -> bool {
        !self.coming.is_empty()
    }

    /// Returns the messages that came and were not released.
    pub(super) fn into_received(mut self) -> BTreeMap<u16, Received> {
        for (id, _) in std::mem::take(&mut self.released) {
            self.received.entry(id).or_insert(Received::OnDisk);
        }
        self.received
    }

    fn forget(&self, id: u16) {
        if let Some(session) = &self.session {
            self.hub.note_received(session, id, None);
        }
    }
}
