//! The brokers that were heard of over NATS.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use whimbrel::PublicKey;
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};

use super::super::traffic::Traffic;
use crate::Time;

/// The most other brokers.
pub(super) const MOST_MEMBERS: usize = 256;
/// A broker that is silent for so long is not linked.
pub(super) const SILENT: Duration = Duration::from_secs(10);
/// Clients are not sent to a broker that is silent for so long, and its description is forgotten (5 min).
pub(super) const ADVISED_FOR: Duration = Duration::from_secs(300);

/// The brokers that introduced themselves, and that were not silent for too long since.
#[derive(Debug, Default)]
pub(super) struct Members(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    members: BTreeMap<BrokerId, Arc<Member>>,
    /// Those that are not taken, and why.
    refused: BTreeMap<BrokerId, String>,
}

/// Another broker.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) traffic: Traffic,
    epoch: AtomicU64,
    shared: Vec<ChannelId>,
    heard: Mutex<Time>,
    is_linked: AtomicBool,
    /// Whether an answer for it waits to be sent.
    has_answer: AtomicBool,
}

impl Members {
    /// The broker, if it introduced itself.
    pub(super) fn find(&self, broker: BrokerId) -> Option<Arc<Member>> {
        self.inner().members.get(&broker).cloned()
    }

    pub(super) fn all(&self) -> Vec<(BrokerId, Arc<Member>)> {
        self.inner().members.iter().map(|(broker, member)| (*broker, Arc::clone(member))).collect()
    }

    /// A broker that may be taken introduces itself. Returns whether this run of it is new.
    pub(super) fn enter(
        &self,
        run: Origin,
        key: PublicKey,
        name: &str,
        shared: Vec<ChannelId>,
        now: Time,
    ) -> bool {
        let mut inner = self.inner();
        inner.refused.remove(&run.broker);
        if let Some(member) = inner.members.get(&run.broker)
            && member.name == name
            && member.shared == shared
        {
            return member.epoch.swap(run.epoch, Ordering::Relaxed) != run.epoch;
        }
        let member = Arc::new(Member {
            name: name.to_owned(),
            traffic: Traffic::with(key),
            epoch: AtomicU64::new(run.epoch),
            shared,
            heard: Mutex::new(now),
            is_linked: AtomicBool::new(false),
            has_answer: AtomicBool::new(false),
        });
        member.hear(now);
        inner.members.insert(run.broker, member);
        true
    }

    /// Whether another broker can be taken.
    pub(super) fn has_room(&self, broker: BrokerId) -> bool {
        let inner = self.inner();
        inner.members.len() < MOST_MEMBERS || inner.members.contains_key(&broker)
    }

    /// A broker is not taken. Returns whether this is news.
    pub(super) fn refuse(&self, broker: BrokerId, why: &str) -> bool {
        let mut inner = self.inner();
        inner.members.remove(&broker);
        let is_news = inner.refused.get(&broker).is_none_or(|former| former != why);
        if is_news && inner.refused.len() < MOST_MEMBERS {
            inner.refused.insert(broker, why.to_owned());
        }
        is_news
    }

    /// The brokers that are refused, and why.
    pub(super) fn refused(&self) -> Vec<String> {
        self.inner().refused.values().cloned().collect()
    }

    /// Looks who is silent. Returns the brokers that were so for longer than `forget_after`, and are members no more.
    pub(super) fn look(&self, forget_after: Duration, now: Time) -> Vec<BrokerId> {
        let mut inner = self.inner();
        let mut forgotten = Vec::new();
        inner.members.retain(|broker, member| {
            let silent = now.since(member.heard());
            if silent >= SILENT && member.is_linked.swap(false, Ordering::Relaxed) {
                member.traffic.standing.end(member.heard());
            }
            let is_kept = silent < forget_after;
            if !is_kept {
                forgotten.push(*broker);
            }
            is_kept
        });
        forgotten
    }

    /// The brokers that were silent for this time.
    pub(super) fn silent_for(&self, time: Duration, now: Time) -> Vec<BrokerId> {
        let inner = self.inner();
        let silent = inner.members.iter().filter(|(_, member)| now.since(member.heard()) >= time);
        silent.map(|(broker, _)| *broker).collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Something came from it.
    pub(super) fn hear(&self, now: Time) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = now;
        if !self.is_linked.swap(true, Ordering::Relaxed) {
            self.traffic.standing.begin(now);
        }
    }

    pub(super) fn is_linked(&self) -> bool {
        self.is_linked.load(Ordering::Relaxed)
    }

    /// The channels that both have.
    pub(super) fn shared(&self) -> &[ChannelId] {
        &self.shared
    }

    /// Takes its place among the answers. `false`: one waits already.
    pub(super) fn begin_answer(&self) -> bool {
        !self.has_answer.swap(true, Ordering::Acquire)
    }

    /// Its answer was sent, or given up.
    pub(super) fn end_answer(&self) {
        self.has_answer.store(false, Ordering::Release);
    }

    /// When something came from it last.
    pub(super) fn heard(&self) -> Time {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_silent_is_forgotten_only_after_long() {
        let members = Members::default();
        let key = whimbrel::new_identity().public();
        let (run, later) =
            (Origin { broker: BrokerId(1), epoch: 1 }, Origin { broker: BrokerId(1), epoch: 2 });
        let at = |seconds| Time::at(Duration::from_secs(seconds));
        assert!(members.enter(run, key, "a", vec![ChannelId(0)], at(0)));
        assert!(!members.enter(run, key, "a", vec![ChannelId(0)], at(1)));
        assert!(members.enter(later, key, "a", vec![ChannelId(0)], at(1)));
        let day = Duration::from_secs(86_400);
        assert!(members.look(day, at(20)).is_empty());
        assert!(!members.find(BrokerId(1)).unwrap().is_linked());
        members.find(BrokerId(1)).unwrap().hear(at(21));
        assert!(members.find(BrokerId(1)).unwrap().is_linked());
        assert!(members.silent_for(ADVISED_FOR, at(320)).is_empty());
        assert_eq!(members.silent_for(ADVISED_FOR, at(321)), [BrokerId(1)]);
        assert_eq!(members.look(day, at(90_000)), [BrokerId(1)]);
        assert!(members.find(BrokerId(1)).is_none());
    }

    #[test]
    fn a_refusal_is_news_once() {
        let members = Members::default();
        assert!(members.refuse(BrokerId(1), "it differs"));
        assert!(!members.refuse(BrokerId(1), "it differs"));
        assert!(members.refuse(BrokerId(1), "it is old"));
    }
}
