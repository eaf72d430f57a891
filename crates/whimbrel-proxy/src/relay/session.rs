//! A session with a peer: what the peer opens here, and datagrams in both directions.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::mpsc;
use whimbrel::{CloseReason, Mocket};
use whimbrel_service::ActivityLog;

use super::far::FarEnd;
use super::limits::Limits;
use super::near::{Opened, Refused};
use super::record::{FlowRecord, Flows};
use super::shares::Shares;
use super::udp::{FarPrograms, Outgoing, Programs};
use crate::flow::Ended;
use crate::policy::{Permits, Protocol};
use crate::protocol::{Datagram, Opening};

/// What holds for all sessions with one peer.
#[derive(Debug)]
pub struct SessionContext {
    /// The peer's name, or its key.
    pub peer: Arc<str>,
    permits: RwLock<Arc<Permits>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) flows: Flows,
    pub(super) shares: Shares,
    activity: Option<ActivityLog>,
}

impl SessionContext {
    /// What holds for this peer, which may open what `permits` say.
    pub fn new(
        peer: &str,
        permits: Permits,
        limits: Arc<Limits>,
        flows: Flows,
        activity: Option<ActivityLog>,
    ) -> Self {
        let (permits, shares) = (RwLock::new(Arc::new(permits)), Shares::new(&limits));
        Self { peer: peer.into(), permits, limits, flows, shares, activity }
    }

    /// Returns what the peer may open.
    pub fn permits(&self) -> Arc<Permits> {
        Arc::clone(&self.permits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets what the peer may open from now on.
    pub fn set_permits(&self, permits: Permits) {
        *self.permits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(permits);
    }

    pub(crate) fn note(&self, what: &str, more: serde_json::Value) {
        let Some(activity) = &self.activity else { return };
        let mut fields = serde_json::Map::from_iter([("peer".to_owned(), (*self.peer).into())]);
        if let serde_json::Value::Object(more) = more {
            fields.extend(more);
        }
        activity.note(what, fields.into());
    }

    pub(crate) fn note_ended(&self, record: &FlowRecord, ended: Ended) {
        let (to_peer, from_peer) = record.bytes();
        self.note("flow ended", serde_json::json!({
            "protocol": record.protocol, "by_peer": record.by_peer, "target": record.target, "program": record.program, "rule": record.rule,
            "to_peer_bytes": to_peer, "from_peer_bytes": from_peer, "how": how(ended),
        }));
    }
}

fn how(ended: Ended) -> String {
    match ended {
        Ended::Finished => "finished".to_owned(),
        Ended::ResetByProgram => "reset by the program".to_owned(),
        Ended::ResetByPeer(code) => format!("reset by the peer with code {code}"),
        Ended::SessionLost => "the session ended".to_owned(),
        Ended::GivenUp(code) => format!("given up with code {code}"),
    }
}

/// A session with a peer.
#[derive(Debug)]
pub struct Session {
    mocket: Mocket,
    context: Arc<SessionContext>,
    outgoing: Arc<Outgoing>,
    programs: Arc<Programs>,
}

impl Session {
    /// A session over this mocket. [`Session::serve`] must run.
    pub fn new(mocket: Mocket, context: Arc<SessionContext>, programs: Arc<Programs>) -> Arc<Self> {
        let outgoing = Arc::new(Outgoing::new(mocket.clone(), context.limits.max_udp_contexts));
        Arc::new(Self { mocket, context, outgoing, programs })
    }

    /// Returns the mocket.
    pub fn mocket(&self) -> &Mocket {
        &self.mocket
    }

    /// What holds for this peer.
    pub fn context(&self) -> &Arc<SessionContext> {
        &self.context
    }

    pub(crate) fn outgoing(&self) -> &Arc<Outgoing> {
        &self.outgoing
    }

    /// Opens a TCP flow to a target, as a rule says.
    ///
    /// # Errors
    /// There are too many flows, or the session is over.
    pub async fn open(&self, opening: &Opening, rule: Option<String>) -> Result<Opened, Refused> {
        let context = &self.context;
        let record = FlowRecord::new(Protocol::Tcp, Arc::clone(&context.peer))
            .to(&opening.target)
            .of(opening.source)
            .by_rule(rule);
        let running = context.flows.add(record, context.limits.max_flows).ok_or(Refused::Limit)?;
        Opened::open(&self.mocket, opening, running).await
    }

    /// Serves the peer until the session is over.
    pub async fn serve(self: Arc<Self>) -> CloseReason {
        let far = Arc::new(FarEnd::new(self.mocket.clone(), Arc::clone(&self.context)));
        let (found, mut look_ups) = mpsc::channel(64);
        let outgoing = Arc::clone(&self.outgoing);
        let mut far_programs = FarPrograms::new(Arc::clone(&self.context), outgoing, found);
        let mut sweep = tokio::time::interval(std::time::Duration::from_secs(5));
        loop {
            tokio::select! {
                stream = self.mocket.accept_stream() => match stream {
                    Ok(stream) => {
                        let far = Arc::clone(&far);
                        tokio::spawn(async move { far.serve(stream).await });
                    }
                    Err(_) => break,
                },
                message = self.mocket.recv() => match message {
                    Ok(message) => self.on_message(message.payload, &mut far_programs),
                    Err(_) => break,
                },
                Some(found) = look_ups.recv() => far_programs.on_found(found),
                _ = sweep.tick() => far_programs.sweep(),
            }
        }
        self.mocket.closed().await
    }

    fn on_message(&self, payload: bytes::Bytes, far: &mut FarPrograms) {
        // A message that cannot be read is of a later version, or of a peer that harms only itself.
        let Ok(datagram) = Datagram::from_bytes(payload) else { return };
        match datagram {
            Datagram::Refused(context, refusal) => self.outgoing.on_refused(context, refusal),
            Datagram::Plain(context, payload) => far.on_datagram(context, payload, &self.programs),
            Datagram::Announcement(context, announced) => far.on_announced(context, announced),
            Datagram::Announced(context, announced, payload) => {
                far.on_announced(context, announced);
                far.on_datagram(context, payload, &self.programs);
            }
        }
    }
}
