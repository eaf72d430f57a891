//! The links to other brokers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use whimbrel::Mocket;
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::super::frame::MeshFrame;

/// The most sessions with one broker: one that each dialled, and former ones that have not noticed yet that they are dead.
const MOST_SESSIONS: usize = 4;
/// Closing a session in whose place there are newer ones.
const REPLACED: u64 = 0;

/// The session over which each broker is asked. If there are two, it is the newer.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_broker: BTreeMap<BrokerId, Vec<Session>>,
    last: u64,
}

#[derive(Debug)]
struct Session {
    number: u64,
    mocket: Mocket,
    /// The channels that both have; none before both have introduced themselves.
    shared: Vec<ChannelId>,
}

impl Links {
    /// Enters a session. Returns its number. Of too many, the oldest is closed.
    pub(super) fn insert(&self, broker: BrokerId, mocket: Mocket) -> u64 {
        let mut inner = self.inner();
        inner.last += 1;
        let number = inner.last;
        let sessions = inner.by_broker.entry(broker).or_default();
        sessions.push(Session { number, mocket, shared: Vec::new() });
        let oldest = (sessions.len() > MOST_SESSIONS).then(|| sessions.remove(0));
        drop(inner);
        if let Some(oldest) = oldest {
            oldest.mocket.abort(REPLACED, "there are newer sessions with this broker");
        }
        number
    }

    pub(super) fn remove(&self, broker: BrokerId, number: u64) {
        let mut inner = self.inner();
        if let Some(sessions) = inner.by_broker.get_mut(&broker) {
            sessions.retain(|session| session.number != number);
            if sessions.is_empty() {
                inner.by_broker.remove(&broker);
            }
        }
    }

    /// Sends to a broker, if there is a link that carries the channel, and room in its queue. What does not go now is due again later.
    pub(super) fn send(&self, to: BrokerId, channel: ChannelId, frame: &MeshFrame) {
        let inner = self.inner();
        let newest = inner.by_broker.get(&to).and_then(|sessions| sessions.last());
        if let Some(session) = newest.filter(|session| session.shared.contains(&channel)) {
            drop(session.mocket.try_send(frame.encode()));
        }
    }

    /// Sends to all brokers that have the channel.
    pub(super) fn send_all(&self, channel: ChannelId, frame: &MeshFrame) {
        let bytes = frame.encode();
        let inner = self.inner();
        let newest = inner.by_broker.values().filter_map(|sessions| sessions.last());
        for session in newest.filter(|session| session.shared.contains(&channel)) {
            drop(session.mocket.try_send(bytes.clone()));
        }
    }

    /// The other broker of a session has these channels in common with this one.
    pub(super) fn share(&self, broker: BrokerId, number: u64, shared: Vec<ChannelId>) {
        let mut inner = self.inner();
        let sessions = inner.by_broker.get_mut(&broker).into_iter().flatten();
        sessions
            .filter(|session| session.number == number)
            .for_each(|session| session.shared.clone_from(&shared));
    }

    /// Whether messages for a broker go over this session: over the newest only.
    pub(super) fn is_newest(&self, broker: BrokerId, number: u64) -> bool {
        let inner = self.inner();
        inner
            .by_broker
            .get(&broker)
            .and_then(|sessions| sessions.last())
            .is_some_and(|last| last.number == number)
    }

    /// The session over which a broker is asked.
    pub(super) fn newest(&self, broker: BrokerId) -> Option<Mocket> {
        Some(self.inner().by_broker.get(&broker)?.last()?.mocket.clone())
    }

    pub(super) fn brokers(&self) -> Vec<BrokerId> {
        self.inner().by_broker.keys().copied().collect()
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
