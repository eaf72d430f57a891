//! The record of a flow that runs, as the status shows it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::totals::Group;
use crate::compress::Method;
use crate::flow::compressed::LinkBytes;
use crate::policy::{Decision, Origin, Protocol};
use crate::protocol::Target;

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowState {
    /// It waits for its peer, or for the far end's answer.
    Opening,
    /// It hands bytes on.
    Running,
    /// A rule holds it.
    Held,
    /// A rule holds it, and it is not open yet.
    Waiting,
}

impl FlowState {
    const ALL: [Self; 4] = [Self::Opening, Self::Running, Self::Held, Self::Waiting];

    fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Running => "running",
            Self::Held | Self::Waiting => "held",
        }
    }
}

/// A flow that runs now.
#[derive(Debug)]
pub struct FlowRecord {
    /// Its protocol.
    pub protocol: Protocol,
    /// Whether the peer opened it.
    pub by_peer: bool,
    /// The peer's name, or its key.
    pub peer: Arc<str>,
    /// The target. Empty for a UDP program, which may send anywhere.
    pub target: String,
    /// The program's address at the near end.
    pub program: Option<SocketAddr>,
    /// The way in at this end, as far as that is known.
    pub origin: Origin,
    /// The rule that it follows.
    pub rule: Option<String>,
    began: Instant,
    state: AtomicU8,
    from_peer: AtomicU64,
    to_peer: AtomicU64,
    /// The compression of a TCP flow, and its bytes on the link.
    compression: OnceLock<(Method, Arc<LinkBytes>)>,
    /// The bytes of datagrams that compression has saved: to the peer, and from it.
    saved: [AtomicU64; 2],
}

impl FlowRecord {
    /// A flow with this peer that begins now.
    pub(crate) fn new(protocol: Protocol, peer: Arc<str>) -> Self {
        let zero = || AtomicU64::new(0);
        let (target, began) = (String::new(), Instant::now());
        let (to_peer, from_peer) = (zero(), zero());
        // Datagrams go at once, and wait for no answer.
        let state = if protocol == Protocol::Tcp { FlowState::Opening } else { FlowState::Running };
        let state = AtomicU8::new(state as u8);
        let (compression, saved) = (OnceLock::new(), [zero(), zero()]);
        Self {
            protocol,
            by_peer: false,
            peer,
            target,
            program: None,
            origin: Origin::default(),
            rule: None,
            began,
            state,
            to_peer,
            from_peer,
            compression,
            saved,
        }
    }

    /// The peer has opened it.
    pub(crate) fn by_peer(mut self) -> Self {
        self.by_peer = true;
        self
    }

    pub(crate) fn to(mut self, target: &Target) -> Self {
        self.target = target.to_string();
        self
    }

    pub(crate) fn of(mut self, program: Option<SocketAddr>) -> Self {
        self.program = program;
        self
    }

    pub(crate) fn from(mut self, origin: &Origin) -> Self {
        self.origin = origin.clone();
        self
    }

    pub(crate) fn by_rule(mut self, decision: &Decision) -> Self {
        self.rule = decision.rule.as_ref().map(|(_, name)| name.clone());
        self
    }

    /// A flow that goes on in this process.
    pub(super) fn resumed(
        protocol: Protocol,
        peer: Arc<str>,
        by_peer: bool,
        target: String,
        program: Option<SocketAddr>,
        rule: Option<String>,
    ) -> Self {
        Self { by_peer, target, program, rule, ..Self::new(protocol, peer) }
    }

    /// It has run for so long already, in another process, with so many bytes.
    pub(crate) fn since(mut self, age: Duration, (to_peer, from_peer): (u64, u64)) -> Self {
        self.began = Instant::now().checked_sub(age).unwrap_or(self.began);
        self.set(to_peer, from_peer);
        self
    }

    /// Returns how long it has run.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn set_state(&self, state: FlowState) {
        self.state.store(state as u8, Ordering::Release);
    }

    pub(super) fn state(&self) -> FlowState {
        let state = self.state.load(Ordering::Acquire);
        FlowState::ALL.into_iter().find(|known| *known as u8 == state).unwrap_or(FlowState::Running)
    }

    /// Adds bytes that went to the peer, and that came from it.
    pub(crate) fn count(&self, to_peer: u64, from_peer: u64) {
        self.to_peer.fetch_add(to_peer, Ordering::Relaxed);
        self.from_peer.fetch_add(from_peer, Ordering::Relaxed);
    }

    /// Adds bytes of datagrams that compression has saved.
    pub(crate) fn save(&self, to_peer: usize, from_peer: usize) {
        self.saved[0].fetch_add(to_peer as u64, Ordering::Relaxed);
        self.saved[1].fetch_add(from_peer as u64, Ordering::Relaxed);
    }

    /// The flow is compressed, and has these bytes on the link.
    pub(super) fn compressed(&self, method: Method, link: Arc<LinkBytes>) {
        // A flow agrees on it once.
        drop(self.compression.set((method, link)));
    }

    pub(crate) fn set(&self, to_peer: u64, from_peer: u64) {
        self.to_peer.store(to_peer, Ordering::Relaxed);
        self.from_peer.store(from_peer, Ordering::Relaxed);
    }

    /// Returns the bytes that went to the peer, and that came from it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.to_peer.load(Ordering::Relaxed), self.from_peer.load(Ordering::Relaxed))
    }

    /// Returns the bytes that went to the peer on the link, and that came from it, without headers of the transport.
    pub fn link(&self) -> (u64, u64) {
        let (bytes, saved) = (self.bytes(), |at: usize| self.saved[at].load(Ordering::Relaxed));
        match self.compression.get() {
            Some((_, link)) => link.both(),
            None => (bytes.0.saturating_sub(saved(0)), bytes.1.saturating_sub(saved(1))),
        }
    }

    pub(super) fn group(&self) -> Group {
        let rule = self.rule.as_deref().unwrap_or_default().into();
        Group { peer: Arc::clone(&self.peer), protocol: self.protocol, by_peer: self.by_peer, rule }
    }

    pub(super) fn shown(&self) -> serde_json::Value {
        let ((to_peer, from_peer), link) = (self.bytes(), self.link());
        serde_json::json!({
            "protocol": self.protocol, "by_peer": self.by_peer, "peer": *self.peer, "target": self.target,
            "program": self.program, "by": self.origin.by, "rule": self.rule, "state": self.state().name(), "age_s": self.began.elapsed().as_secs(),
            "to_peer_bytes": to_peer, "from_peer_bytes": from_peer,
            "compression": self.compression.get().map(|(method, _)| method),
            "to_peer_link_bytes": link.0, "from_peer_link_bytes": link.1,
        })
    }
}
