//! The sending half of a session with another broker.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use whimbrel::{Mocket, Sender};
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::super::frame::{FRAME, Introduction, MeshFrame, for_version};
use super::super::traffic::Traffic;
use super::core::Mesh;
use crate::hub::{Confirming, Outgoing, Sharing};

/// How often it is looked whether this is still the session for messages.
const LOOK: Duration = Duration::from_secs(1);

/// The sources of what a session sends.
pub(super) struct Sources {
    /// The introduction of this broker, until it is sent.
    pub(super) introduction: Option<Introduction>,
    /// The channels that both have, once the other has introduced itself.
    pub(super) introduced: oneshot::Receiver<Met>,
    /// Answers to questions.
    pub(super) answers: mpsc::Receiver<Vec<Bytes>>,
}

/// The result of an introduction.
pub(super) struct Met {
    /// The channels that both have.
    pub(super) shared: Vec<ChannelId>,
    /// News of what is on disk.
    pub(super) confirming: Confirming,
    /// News of durable subscriptions.
    pub(super) sharing: Sharing,
}

/// The session of the mesh that is sent over.
pub(super) struct Line<'a> {
    pub(super) mesh: &'a Mesh,
    pub(super) mocket: &'a Mocket,
    pub(super) traffic: &'a Traffic,
    /// The other broker, and the session's number among those with it.
    pub(super) number: (BrokerId, u64),
    /// The version of the other broker's frames.
    pub(super) version: u16,
}

/// The session has ended.
struct Ended;

/// Introduces this broker, and waits for the other to do so. Sends the highest sequences that are known here, then the messages that are published here, and all else between them, until the session ends.
pub(super) async fn run(line: &Line<'_>, mut sources: Sources) {
    // An end shows in the loop that receives, too.
    drop(line.send_all(&mut sources).await);
}

impl Line<'_> {
    async fn send_all(&self, sources: &mut Sources) -> Result<(), Ended> {
        if let Some(introduction) = sources.introduction.take() {
            self.send(&MeshFrame::Introduction(introduction)).await?;
        }
        // Without an introduction the session ends.
        let Met { shared, mut confirming, sharing } = (&mut sources.introduced).await.map_err(|_| Ended)?;
        let mut outgoing = self.mesh.hub.outgoing(&shared);
        let (broker, number) = self.number;
        self.mesh.links.share(broker, number, shared.clone());
        for channel in shared {
            self.send(&MeshFrame::Heads(channel, self.mesh.hub.heads(channel))).await?;
        }
        let sender = self.mocket.sender().unsequenced().build();
        self.traffic.on_sent(0, outgoing.next_sequences());
        let mut answer = None;
        loop {
            // In order: a broker that is told what is gone has the rest.
            for frame in answer.take().into_iter().flatten() {
                self.mocket.send(frame).await.map_err(|_| Ended)?;
            }
            let mut is_idle = !self.send_messages(&mut outgoing, &sender).await?;
            is_idle &= !self.send_durable(&mut confirming, &sharing).await?;
            answer = sources.answers.try_recv().ok();
            if is_idle && answer.is_none() {
                answer = tokio::select! {
                    answer = sources.answers.recv() => answer,
                    () = outgoing.woken() => None,
                    () = confirming.woken() => None,
                    () = sharing.woken() => None,
                    () = tokio::time::sleep(LOOK) => None,
                };
            }
        }
    }

    /// Sends the next messages. Returns whether there were any.
    async fn send_messages(&self, outgoing: &mut Outgoing, sender: &Sender) -> Result<bool, Ended> {
        let Some((channel, messages)) = outgoing.next(FRAME) else { return Ok(false) };
        // Of two sessions the newer one is used; what this one passes over goes there.
        let (broker, number) = self.number;
        if self.mesh.links.is_newest(broker, number) {
            self.traffic.on_sent(messages.len(), outgoing.next_sequences());
            let frame = MeshFrame::Messages(channel, messages).encode();
            sender.send(frame).await.map_err(|_| Ended)?;
        }
        Ok(true)
    }

    /// Sends what is on disk, and the next words about durable subscriptions. Returns whether there were any.
    async fn send_durable(&self, confirming: &mut Confirming, sharing: &Sharing) -> Result<bool, Ended> {
        let stored = confirming.take_next();
        let words = sharing.next();
        let is_some = stored.is_some() || !words.is_empty();
        if let Some((channel, origin, ranges)) = stored {
            self.send(&MeshFrame::Stored(channel, origin, ranges)).await?;
        }
        for word in words.into_iter().filter_map(|word| for_version(word, self.version)) {
            self.send(&MeshFrame::Word(word)).await?;
        }
        Ok(is_some)
    }

    async fn send(&self, frame: &MeshFrame) -> Result<(), Ended> {
        self.mocket.send(frame.encode()).await.map_err(|_| Ended)
    }
}
