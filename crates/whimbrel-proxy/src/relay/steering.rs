//! The settings of a TCP flow that change while it runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use whimbrel::StreamId;

use super::caps::cap_of;
use super::reach::Reached;
use crate::policy::{Action, Decision, FlowKey, Rules};
use crate::protocol::{Cap, codes};

/// The authority over a running flow: the rules of this proxy, or the peer.
#[derive(Debug)]
pub(crate) enum Steering {
    /// The rules of this proxy.
    Rules {
        /// They change with the file and with the state of the network.
        rules: watch::Receiver<Arc<Rules>>,
        /// The properties of the flow that rules look at.
        key: FlowKey,
        /// Their decision when they were last asked.
        decision: Box<Decision>,
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
pub(super) struct Helm(Mutex<HashMap<u64, watch::Sender<Wishes>>>);

/// The peer's wishes for a stream: its priority, and its cap.
type Wishes = (Option<u8>, Option<Cap>);

/// A stream that the peer can steer. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Steered {
    helm: Arc<Helm>,
    stream: u64,
    wishes: watch::Receiver<Wishes>,
}

impl Helm {
    /// Lets the peer steer a stream, of which it has wished this so far.
    pub(super) fn steer(self: &Arc<Self>, stream: StreamId, wishes: Wishes) -> Steered {
        let (sender, wishes) = watch::channel(wishes);
        self.lock().insert(stream.0, sender);
        Steered { helm: Arc::clone(self), stream: stream.0, wishes }
    }

    /// The peer wishes another priority. A stream that is gone means nothing by it.
    pub(super) fn set_priority(&self, stream: u64, priority: Option<u8>) {
        if let Some(sender) = self.lock().get(&stream) {
            sender.send_modify(|wishes| wishes.0 = priority);
        }
    }

    /// The peer wishes another cap.
    pub(super) fn set_cap(&self, stream: u64, cap: Option<Cap>) {
        if let Some(sender) = self.lock().get(&stream) {
            sender.send_modify(|wishes| wishes.1 = cap);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, watch::Sender<Wishes>>> {
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
    pub(crate) cap: Option<Cap>,
    /// How many bytes its program may write while the peer cannot be reached.
    pub(crate) hold_bytes: Option<usize>,
    /// It waits until the next change.
    pub(crate) is_held: bool,
    /// It ends now, with this code.
    pub(crate) ends: Option<u64>,
}

impl Steering {
    /// Follows whether the peer can be reached, for a flow that takes more from its program while it cannot.
    pub(super) fn reached(&self) -> Option<Reached> {
        match self {
            Self::Rules { reached, .. } => reached.clone(),
            Self::Peer(_) => None,
        }
    }

    /// Returns how many bytes its program may write while the peer cannot be reached.
    pub(super) fn hold_bytes(&self) -> usize {
        match self {
            Self::Rules { decision, .. } => decision.hold_bytes.unwrap_or_default(),
            Self::Peer(_) => 0,
        }
    }

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
                    **decision = rules.borrow_and_update().decide(key);
                    let now = of_decision(decision, *is_carried);
                    if now != before {
                        return now;
                    }
                }
                Self::Peer(Steered { wishes, .. }) => {
                    if wishes.changed().await.is_err() {
                        return std::future::pending().await;
                    }
                    let (priority, cap) = *wishes.borrow_and_update();
                    return Change { priority, cap, hold_bytes: None, is_held: false, ends: None };
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
        cap: cap_of(decision),
        hold_bytes: decision.hold_bytes,
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
