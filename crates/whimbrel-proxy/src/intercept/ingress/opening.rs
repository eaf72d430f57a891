//! Opening flows as the rules say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Ingress;
use crate::policy::{Action, Decision, Protocol};
use crate::protocol::{Opening, Target};
use crate::relay::{DirectFlow, FlowRecord, FlowState, GONE_AFTER, Opened, Peer, Refused, Steering};

/// How long a program waits for an absent peer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A flow that is open: carried, or not.
#[derive(Debug)]
pub(in crate::intercept) enum Way {
    /// Over a session with this peer.
    Carried(Box<Opened>, Steering, Peer),
    /// By a connection of this proxy.
    Direct(Box<DirectFlow>, Steering),
}

impl Ingress {
    /// Opens a flow as the rules say, and waits for its peer if that is absent. `first` was read from the program
    /// already; it rides with the opening. Waits for the answer, unless the program gives up, which `gone` waits for.
    pub(in crate::intercept) async fn open(
        &self,
        target: &Target,
        source: SocketAddr,
        first: Bytes,
        gone: impl Future<Output = ()>,
    ) -> Result<(Way, Option<SocketAddr>), Refused> {
        let opening = async {
            loop {
                let mut way = self.begin(target, source, first.len()).await?;
                match self.answered(&mut way, &first).await {
                    Some(Ok(address)) => return Ok((way, address)),
                    Some(Err(refused)) => return Err(refused),
                    // Its peer is gone, and there is another.
                    None => {}
                }
            }
        };
        let opened = tokio::select! {
            opened = opening => opened,
            () = gone => Err(Refused::ProgramGone),
        };
        if let Err(refused) = &opened {
            self.note_refused(target, source, *refused);
        }
        opened
    }

    /// Waits for the far end's answer, and returns its address. None: the peer cannot be reached any more, and flows go to
    /// a standby. One that has bytes already stays, since nobody knows who has them.
    async fn answered(&self, way: &mut Way, first: &Bytes) -> Option<Result<Option<SocketAddr>, Refused>> {
        let (opened, peer, mut reached) = match way {
            Way::Direct(flow, _) => {
                let sent = flow.send_early(first.clone()).await;
                return Some(sent.map(|()| flow.local_addr()));
            }
            Way::Carried(opened, Steering::Rules { reached: Some(reached), .. }, peer) => {
                (opened, peer, reached.clone())
            }
            Way::Carried(opened, _, _) => return Some(opened.answer().await.map(|answer| answer.address)),
        };
        // What the far end refuses it says in its answer.
        opened.send_early(first.clone()).await.ok();
        let moves = async {
            loop {
                reached.lost(GONE_AFTER).await;
                if first.is_empty() && self.0.roster.now().standby(peer).is_some() {
                    return;
                }
                tokio::time::sleep(GONE_AFTER).await;
            }
        };
        tokio::select! {
            biased;
            answer = opened.answer() => Some(answer.map(|answer| answer.address)),
            () = moves => None,
        }
    }

    /// Opens a flow as the rules say, once they do not hold it. A carried one has no answer yet.
    /// `early` is the number of bytes that go before it.
    pub(super) async fn begin(
        &self,
        target: &Target,
        source: SocketAddr,
        early: usize,
    ) -> Result<Way, Refused> {
        let key = self.key(Protocol::Tcp, target.clone(), source);
        let mut rules = self.0.ruling.watch();
        let mut deadline = Instant::now() + PATIENCE;
        loop {
            let decision = rules.borrow_and_update().decide(&key);
            let peer = self.peer(&decision);
            let name = match (decision.action, &peer) {
                (Action::Direct, _) => "direct".into(),
                (_, Some(peer)) => Arc::clone(&peer.context().peer),
                (_, None) => "".into(),
            };
            let record = FlowRecord::new(Protocol::Tcp, name)
                .to(target)
                .of(Some(source))
                .from(&key.origin)
                .by_rule(&decision);
            // One that waits counts, too.
            let running = self.0.flows.add(record, self.0.limits.max_flows).ok_or(Refused::Limit)?;
            self.log(&decision, &key);
            match decision.action {
                Action::Carry => {
                    let peer = peer.ok_or(Refused::NoSession)?;
                    let session = tokio::select! {
                        session = peer.session_within(deadline - Instant::now()) => session,
                        // Its standby has come, or it was taken out of the file.
                        () = self.replaced(&decision, &peer) => continue,
                    };
                    let session = session.ok_or(Refused::NoSession)?;
                    let mut manner = self.manner(&decision);
                    if let Some(compression) = &mut manner.compression {
                        compression.plain = u32::try_from(early).unwrap_or(u32::MAX);
                    }
                    let opening = Opening { target: target.clone(), source: Some(source), manner };
                    let reached = Some(session.reached());
                    let opened = session.open(&opening, running).await?;
                    let decision = Box::new(decision);
                    let steering = Steering::Rules { rules, key, decision, is_carried: true, reached };
                    return Ok(Way::Carried(Box::new(opened), steering, peer));
                }
                Action::Direct => {
                    let mark = self.0.context.mark;
                    let flow = DirectFlow::open(target, source, running, &self.0.limits, mark).await?;
                    let decision = Box::new(decision);
                    let steering = Steering::Rules { rules, key, decision, is_carried: false, reached: None };
                    return Ok(Way::Direct(Box::new(flow), steering));
                }
                Action::Reject => return Err(Refused::ByRule),
                Action::Drop => {
                    tokio::time::sleep(self.0.limits.connect_timeout).await;
                    return Err(Refused::ByRule);
                }
                Action::Hold => {
                    running.record.set_state(FlowState::Waiting);
                    // The sender lives as long as this.
                    rules.changed().await.ok();
                    deadline = Instant::now() + PATIENCE;
                }
            }
        }
    }

    /// Waits until flows of a decision go to another peer than this one.
    async fn replaced(&self, decision: &Decision, peer: &Peer) {
        loop {
            let goes_on = self.peer(decision).is_some_and(|now| now.is(peer));
            if !goes_on {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(GONE_AFTER) => {}
                () = peer.gone() => return,
            }
        }
    }

    pub(super) fn note_refused(&self, target: &Target, source: SocketAddr, why: Refused) {
        self.0.flows.count_refused(why);
        self.0.context.note(
            "flow refused",
            serde_json::json!({
                "protocol": "tcp", "by_peer": false, "target": target.to_string(), "program": source,
                "why": why.to_string(),
            }),
        );
    }
}
