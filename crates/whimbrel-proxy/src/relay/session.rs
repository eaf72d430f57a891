//! A session with a peer: what the peer opens here, and datagrams in both directions.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::{mpsc, watch};
use whimbrel::{Paths, StreamId};
use whimbrel_service::ActivityLog;

use super::bond::Bond;
use super::dictionaries::Dictionaries;
use super::far::FarEnd;
use super::limits::Limits;
use super::mark::Mark;
use super::near::{Opened, Refused};
use super::own_ports::OwnPorts;
use super::reach::{Reach, Reached};
use super::record::{FlowRecord, Flows, Running};
use super::restarts::Restarts;
use super::shares::Shares;
use super::steering::Helm;
use super::udp::{Codecs, FarPrograms, Found, Outgoing, Programs};
use super::wish::Wish;
use crate::compress::Budget;
use crate::connector::{Link, LinkEnd, Stream};
use crate::flow::Ended;
use crate::multicast::Multicast;
use crate::policy::{Permits, Protocol};
use crate::protocol::{Capabilities, Datagram, Gathered, Opening};
use crate::upgrade::UdpParts;

/// The most addresses that were looked up and wait to be used.
const LOOK_UPS: usize = 64;

/// The context of all sessions with one peer.
#[derive(Debug)]
pub struct SessionContext {
    /// The peer's name, or its key.
    pub peer: Arc<str>,
    permits: RwLock<Arc<Permits>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) flows: Flows,
    pub(in crate::relay) shares: Shares,
    pub(crate) dictionaries: Arc<Dictionaries>,
    activity: Option<ActivityLog>,
    /// The mark of connections and datagrams that are sent for the peer, and of direct ones.
    pub(crate) mark: Mark,
    /// Where groups of the peer are sent on.
    pub(crate) multicast: Option<Arc<Multicast>>,
    /// Our own ports.
    pub(crate) own: Arc<OwnPorts>,
}

impl SessionContext {
    /// Creates the context of a peer, which may open what `permits` say.
    pub fn new(
        peer: &str,
        permits: Permits,
        limits: Arc<Limits>,
        flows: Flows,
        (dictionaries, compression): (Arc<Dictionaries>, &Budget),
        activity: Option<ActivityLog>,
    ) -> Self {
        let (permits, shares) = (RwLock::new(Arc::new(permits)), Shares::new(&limits, compression));
        let (peer, own) = (peer.into(), Arc::default());
        Self {
            peer,
            permits,
            limits,
            flows,
            shares,
            dictionaries,
            activity,
            mark: None,
            multicast: None,
            own,
        }
    }

    /// Marks what is sent for the peer.
    pub fn marked(mut self, mark: Option<u32>) -> Self {
        self.mark = mark;
        self
    }

    /// Has the peer's groups sent on there.
    pub(crate) fn with_multicast(mut self, multicast: Option<Arc<Multicast>>) -> Self {
        self.multicast = multicast;
        self
    }

    /// Refuses targets at these ports of ours.
    pub(crate) fn with_own(mut self, own: &Arc<OwnPorts>) -> Self {
        self.own = Arc::clone(own);
        self
    }

    /// Returns what the peer may open.
    pub fn permits(&self) -> Arc<Permits> {
        Arc::clone(&self.permits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets what the peer may open from now on.
    pub fn set_permits(&self, permits: Permits) {
        *self.permits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(permits);
    }

    /// Returns whether a target is this proxy itself. If it is, that is noted.
    pub(super) fn is_loop(&self, protocol: Protocol, target: SocketAddr) -> bool {
        let is_loop = self.own.has(protocol, target);
        if is_loop {
            let why = "the target is a port of this proxy: a loop";
            self.note(
                "loop refused",
                serde_json::json!({ "protocol": protocol, "target": target, "why": why }),
            );
        }
        is_loop
    }

    pub(crate) fn note(&self, what: &str, more: serde_json::Value) {
        let Some(activity) = &self.activity else { return };
        let mut fields = serde_json::Map::from_iter([("peer".to_owned(), (*self.peer).into())]);
        if let serde_json::Value::Object(more) = more {
            fields.extend(more);
        }
        activity.note(what, fields.into());
    }

    /// Notes a flow that the far end refused after its program was let in.
    pub(crate) fn note_refused(&self, record: &FlowRecord, why: Refused) {
        self.flows.count_refused(why);
        self.note("flow refused", serde_json::json!({
            "protocol": record.protocol, "by_peer": record.by_peer, "target": record.target, "program": record.program,
            "rule": record.rule, "why": why.to_string(),
        }));
    }

    pub(crate) fn note_ended(&self, record: &FlowRecord, ended: Ended) {
        let ((to_peer, from_peer), link) = (record.bytes(), record.link());
        self.note("flow ended", serde_json::json!({
            "protocol": record.protocol, "by_peer": record.by_peer, "target": record.target, "program": record.program, "rule": record.rule,
            "to_peer_bytes": to_peer, "from_peer_bytes": from_peer, "to_peer_link_bytes": link.0, "from_peer_link_bytes": link.1,
            "how": how(ended),
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
    link: Link,
    context: Arc<SessionContext>,
    outgoing: Arc<Outgoing>,
    programs: Arc<Programs>,
    helm: Arc<Helm>,
    restarts: Restarts,
    bond: Arc<Bond>,
    far: Arc<FarEnd>,
    /// Locked by whoever serves the session, and when it is handed over.
    far_programs: Mutex<FarPrograms>,
    /// Addresses that were looked up, until the session is served.
    found: Mutex<Option<mpsc::Receiver<Found>>>,
    reach: Reach,
    /// The paths that it uses. None: as the endpoint has them.
    paths: watch::Receiver<Option<Paths>>,
}

impl Session {
    /// A session over this link. [`Session::serve`] must run.
    pub(crate) fn new(
        link: Link,
        context: Arc<SessionContext>,
        programs: Arc<Programs>,
        paths: watch::Receiver<Option<Paths>>,
    ) -> Arc<Self> {
        let codecs = Arc::new(Codecs::new(Arc::clone(&context)));
        let most = context.limits.max_udp_contexts;
        let bond: Arc<Bond> = Arc::default();
        let outgoing = Outgoing::new(link.clone(), most, Arc::clone(&codecs), Arc::clone(&bond));
        let outgoing = Arc::new(outgoing);
        let helm: Arc<Helm> = Arc::default();
        let restarts = Restarts::default();
        let far = FarEnd::new(
            link.clone(),
            Arc::clone(&context),
            Arc::clone(&helm),
            restarts.clone(),
            Arc::clone(&bond),
        );
        let far = Arc::new(far);
        let (found, look_ups) = mpsc::channel(LOOK_UPS);
        let far_programs = FarPrograms::new(Arc::clone(&context), Arc::clone(&outgoing), codecs, found);
        let (far_programs, found) = (Mutex::new(far_programs), Mutex::new(Some(look_ups)));
        let reach = Reach::new();
        Arc::new(Self {
            link,
            context,
            outgoing,
            programs,
            helm,
            restarts,
            bond,
            far,
            far_programs,
            found,
            reach,
            paths,
        })
    }

    /// Returns what carries it.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the context of all sessions with this peer.
    pub fn context(&self) -> &Arc<SessionContext> {
        &self.context
    }

    pub(crate) fn outgoing(&self) -> &Arc<Outgoing> {
        &self.outgoing
    }

    /// Returns whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.reach.is_over()
    }

    /// Follows whether the peer can be reached.
    pub(crate) fn reached(&self) -> Reached {
        self.reach.follow()
    }

    /// The far end of the peer's flows.
    pub(super) fn far(&self) -> &Arc<FarEnd> {
        &self.far
    }

    /// The state that its flows share.
    pub(crate) fn bond(&self) -> &Arc<Bond> {
        &self.bond
    }

    /// The compressed flows.
    pub(super) fn restarts(&self) -> &Restarts {
        &self.restarts
    }

    /// Returns the parts that another process needs to go on with the peer's UDP programs.
    pub(crate) fn udp_parts(&self) -> UdpParts {
        self.far_programs().parts()
    }

    /// Goes on with the peer's UDP programs of another process.
    pub(crate) fn resume_udp(&self, parts: UdpParts) {
        self.far_programs().resume(parts);
    }

    /// The peer's UDP programs.
    fn far_programs(&self) -> MutexGuard<'_, FarPrograms> {
        self.far_programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the streams of a resumed session that no flow goes on with. Those that the peer has opened may still be
    /// waiting to be served; what was being opened from here is reset.
    pub(crate) fn serve_left(&self, left: Vec<StreamId>) {
        for id in left {
            let Some(stream) = self.link.mocket().and_then(|mocket| mocket.stream(id)) else { continue };
            let stream = Stream::Whimbrel(stream);
            if !stream.opening().is_empty() {
                let far = Arc::clone(&self.far);
                self.context.flows.over().spawn(async move { far.serve(stream).await });
            }
        }
    }

    /// Opens a TCP flow to a target.
    ///
    /// # Errors
    /// The session is over.
    pub(crate) async fn open(&self, opening: &Opening, running: Running) -> Result<Opened, Refused> {
        let wish = opening.manner.compression.and_then(|asked| Wish::new(asked, &self.context));
        Opened::open(&self.link, opening, running, wish, &self.restarts, &self.bond).await
    }

    /// Serves the peer until the session is over. Returns why it is.
    pub(crate) async fn serve(self: Arc<Self>) -> LinkEnd {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        debug_assert!(found.is_some(), "a session is served once");
        let Some(mut look_ups) = found else { return self.link.closed().await };
        self.outgoing.tell_reliably(&Datagram::Capabilities(Capabilities::OURS));
        let mut watch = self.link.watch();
        let mut sweep = tokio::time::interval(std::time::Duration::from_secs(5));
        let (mut paths, mut has_paths) = (self.paths.clone(), false);
        loop {
            tokio::select! {
                stream = self.link.accept_stream() => match stream {
                    Some(stream) => {
                        let far = Arc::clone(&self.far);
                        self.context.flows.over().spawn(async move { far.serve(stream).await });
                    }
                    None => break,
                },
                message = self.link.recv() => match message {
                    Some(message) => self.on_message(message),
                    None => break,
                },
                goes_on = watch.changed() => match goes_on {
                    true => self.reach.update(&self.link),
                    false => break,
                },
                // The peer lives as long as its sessions.
                Ok(()) = paths.changed() => has_paths = self.uses_paths(),
                Some(found) = look_ups.recv() => self.far_programs().on_found(found),
                _ = sweep.tick() => {
                    self.far_programs().sweep();
                    // An address that is not there may come.
                    has_paths = has_paths || self.uses_paths();
                }
            }
        }
        self.reach.end();
        self.link.closed().await
    }

    /// Has the session use the peer's paths. Returns whether their addresses are there.
    fn uses_paths(&self) -> bool {
        let (Some(mocket), Some(paths)) = (self.link.mocket(), self.paths.borrow().clone()) else {
            return true;
        };
        mocket.set_paths(paths).is_ok()
    }

    fn on_message(&self, payload: bytes::Bytes) {
        // A message that cannot be read is of a later version, or of a peer that harms only itself.
        let Ok(datagram) = Datagram::from_bytes(payload) else { return };
        let mut far = self.far_programs();
        match datagram {
            Datagram::Priority(stream, priority) => self.helm.set_priority(stream, priority),
            Datagram::Cap(stream, cap) => self.helm.set_cap(stream, cap),
            Datagram::Restart(stream) => self.restarts.ask(stream),
            Datagram::Capabilities(all) => self.bond.on_capabilities(all),
            // What is cut off is lost.
            Datagram::Gathered(content) => {
                for datagram in Gathered::read(&content).unwrap_or_default() {
                    if let Datagram::Plain(context, payload) = datagram {
                        far.on_datagram(context, payload, &self.programs);
                    }
                }
            }
            Datagram::Refused(context, refusal) => self.outgoing.on_refused(context, refusal),
            Datagram::Compresses(context) => self.outgoing.on_compresses(context),
            Datagram::Plain(context, payload) => far.on_datagram(context, payload, &self.programs),
            Datagram::Announcement(context, announced) => far.on_announced(context, announced),
            Datagram::Announced(context, announced, payload) => {
                far.on_announced(context, announced);
                far.on_datagram(context, payload, &self.programs);
            }
        }
    }
}
