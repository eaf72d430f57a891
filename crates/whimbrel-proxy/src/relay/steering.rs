//! The settings of a TCP flow that change while it runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use whimbrel::StreamId;

use super::reach::Reached;
use crate::policy::{Action, Decision, Key, Rules};
use crate::protocol::codes;

/// Who decides about a running flow.
#[derive(Debug)]
pub(crate) enum Steering {
    /// The rules of this proxy.
    Rules {
        /// They change with the file and with the state of the network.
        rules: watch::Receiver<Arc<Rules>>,
        /// The properties of the flow that rules look at.
        key: Key,
        /// Their decision when they were last asked.
        decision: Decision,
        /// Whether it is carried. Otherwise this proxy has connected by itself.
        is_carried: bool,
        /// Whether its peer can be reached, if it is carried.
        reached: Option<Reached>,
    },
    /// The peer, which opened it.
    Peer(Steered),
}

/// The streams of a session that its peer can steer.
#[derive(Debug, Default)]
pub(super) struct Helm(Mutex<HashMap<u64, watch::Sender<Option<u8>>>>);

/// A stream that the peer can steer. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Steered {
    helm: Arc<Helm>,
    stream: u64,
    priority: watch::Receiver<Option<u8>>,
}

impl Helm {
    /// Lets the peer steer a stream.
    pub(super) fn steer(self: &Arc<Self>, stream: StreamId) -> Steered {
        let (sender, priority) = watch::channel(None);
        self.lock().insert(stream.0, sender);
        Steered { helm: Arc::clone(self), stream: stream.0, priority }
    }

    /// The peer wishes another priority. A stream that is gone means nothing by it.
    pub(super) fn set_priority(&self, stream: u64, priority: Option<u8>) {
        if let Some(sender) = self.lock().get(&stream) {
            sender.send_replace(priority);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, watch::Sender<Option<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        self.helm.lock().remove(&self.stream);
    }
}

/// The settings of a flow from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) priority: Option<u8>,
    /// It waits until the next change.
    pub(crate) is_held: bool,
    /// It ends now, with this code.
    pub(crate) ends: Option<u64>,
}

impl Steering {
    /// Waits until something else holds. Can be cancelled at any time.
    pub(crate) async fn changed(&mut self) -> Change {
        loop {
            match self {
                Self::Rules { rules, key, decision, is_carried, reached } => {
                    let before = of_decision(decision, *is_carried);
                    let changed = tokio::select! {
                        changed = rules.changed() => changed,
                        () = lost(reached, decision.outage, before.is_held) => {
                            return Change { ends: Some(codes::OUTAGE), ..before };
                        }
                    };
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    *decision = rules.borrow_and_update().decide(key);
                    let now = of_decision(decision, *is_carried);
                    if now != before {
                        return now;
                    }
                }
                Self::Peer(Steered { priority, .. }) => {
                    if priority.changed().await.is_err() {
                        return std::future::pending().await;
                    }
                    let priority = *priority.borrow_and_update();
                    return Change { priority, is_held: false, ends: None };
                }
            }
        }
    }
}

fn of_decision(decision: &Decision, is_carried: bool) -> Change {
    let goes_elsewhere = match decision.action {
        Action::Reject | Action::Drop => true,
        Action::Direct => is_carried,
        Action::Carry | Action::Hold => false,
    };
    Change {
        priority: decision.priority,
        is_held: decision.action == Action::Hold,
        ends: (decision.existing && goes_elsewhere).then_some(codes::RULE),
    }
}

/// Waits until the peer could not be reached for as long as a rule allows. A flow that is held does not see the end of its
/// session by itself.
async fn lost(reached: &mut Option<Reached>, outage: Option<Duration>, is_held: bool) {
    match (reached, outage) {
        (Some(reached), Some(limit)) => reached.lost(limit).await,
        (Some(reached), None) if is_held => reached.over().await,
        _ => std::future::pending().await,
    }
}
