//! Echo requests that were intercepted, and what their peers say to them.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::echoed::Echoed;
use super::icmp::{Ping, error, reply, request};
use crate::intercept::ingress::Ingress;
use crate::policy::{Action, Decision, Protocol, is_special};
use crate::protocol::{Announcement, Echo, EchoError, Host, Target};
use crate::relay::{EchoReply, Peer, Reply};

/// How programs hear.
pub(in crate::intercept) trait EchoOutlet: Debug + Send + Sync + 'static {
    /// Hands a packet to a program. What cannot be handed over is lost, as on a link.
    fn answer(&self, packet: &[u8]);

    /// Takes a request back that no rule is for.
    fn leave(&self, packet: &[u8]);
}

/// The echoes of all programs.
#[derive(Debug)]
pub(in crate::intercept) struct Echoes {
    ingress: Ingress,
    outlet: Arc<dyn EchoOutlet>,
    asked: Mutex<Echoed>,
}

impl Echoes {
    pub(in crate::intercept) fn new(ingress: Ingress, outlet: Arc<dyn EchoOutlet>) -> Arc<Self> {
        Arc::new(Self { ingress, outlet, asked: Mutex::default() })
    }

    /// Takes a packet, if it is an echo request.
    pub(in crate::intercept) fn on_packet(&self, packet: &[u8]) {
        let Some((ping, hops, data)) = request(packet) else { return };
        let (program, decision) = self.decide(ping.program, ping.target);
        if decision.rule.is_none() {
            return self.outlet.leave(packet);
        }
        match decision.action {
            Action::Carry => {}
            Action::Reject => {
                let error = error(ping, EchoError::Prohibited, ping.target);
                return error.into_iter().for_each(|error| self.outlet.answer(&error));
            }
            Action::Drop | Action::Direct | Action::Hold => return,
        }
        if !self.lock().ask(ping, Instant::now()) {
            return;
        }
        // Without a session it is lost, as on a link that is down.
        let Some(session) = self.ingress.peer(&decision).and_then(|peer| peer.session()) else { return };
        let manner = self.ingress.manner(&decision);
        let remote = SocketAddr::new(ping.target, 0).into();
        let announcement = Announcement::of_program(program, remote, manner);
        let message = Echo::Request(ping.id, hops, Bytes::copy_from_slice(data));
        session.outgoing().send(&announcement, manner, message.to_bytes());
    }

    /// Hands on what peers say, for ever. Each has a queue, so that none fills another's.
    pub(in crate::intercept) async fn answer_all(self: Arc<Self>) {
        let mut peers = self.ingress.follow_peers();
        let (mut heard, mut tasks) = (Vec::<Peer>::new(), JoinSet::new());
        loop {
            let now = Arc::clone(&peers.borrow_and_update());
            heard.retain(|known| now.all().any(|(_, peer)| peer.is(known)));
            for (_, peer) in now.all() {
                if !heard.iter().any(|known| known.is(peer)) {
                    tasks.spawn(Arc::clone(&self).answer(peer.clone()));
                    heard.push(peer.clone());
                }
            }
            drop(now);
            tokio::select! {
                // The sender lives as long as this.
                changed = peers.changed() => if changed.is_err() { return },
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    async fn answer(self: Arc<Self>, peer: Peer) {
        let mut replies = peer.programs().echoes();
        tokio::select! {
            () = self.hand_on(&mut replies) => {}
            () = peer.gone() => {}
        }
    }

    async fn hand_on(&self, replies: &mut mpsc::Receiver<EchoReply>) {
        while let Some((program, reply)) = replies.recv().await {
            self.on_reply(program, &reply);
        }
    }

    fn on_reply(&self, program: SocketAddr, said: &Reply) -> Option<()> {
        let Target { host: Host::Ip(target), .. } = said.from else { return None };
        let message = Echo::from_bytes(said.payload.clone()).ok()?;
        let (Echo::Reply(id, _) | Echo::Error(id, ..)) = message else { return None };
        let ping = Ping { program: program.ip(), target, id };
        // Only to who has asked, and only from whom that goes to.
        let (_, decision) = self.decide(ping.program, target);
        let peer = self.ingress.peer(&decision);
        let is_from_its_peer = peer.is_some_and(|peer| peer.context().peer == said.peer);
        if !is_from_its_peer || !self.lock().is_asked(ping, Instant::now()) {
            return None;
        }
        let packet = match message {
            Echo::Reply(_, data) => reply(ping, &data)?,
            // No peer speaks for this host, its links or groups.
            Echo::Error(_, what, from) if !is_special(from) => error(ping, what, from)?,
            Echo::Error(..) | Echo::Request(..) => return None,
        };
        self.outlet.answer(&packet);
        Some(())
    }

    /// Returns the program as peers know it, and what the rules say.
    fn decide(&self, program: IpAddr, target: IpAddr) -> (SocketAddr, Decision) {
        let source = SocketAddr::new(program, 0);
        let key = self.ingress.key(Protocol::Icmp, SocketAddr::new(target, 0).into(), source);
        (source, self.ingress.rules().decide(&key))
    }

    fn lock(&self) -> MutexGuard<'_, Echoed> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was not asked for a while.
    pub(in crate::intercept) fn expire(&self) {
        self.lock().expire(Instant::now());
    }
}
