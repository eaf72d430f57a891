//! A session with a peer: what the peer opens here, and datagrams in both directions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};
use whimbrel::{Paths, StreamId};

use super::bond::Bond;
use super::context::SessionContext;
use super::far::FarEnd;
use super::flows::RunningFlow;
use super::near::Opened;
use super::reach::{Reach, Reached};
use super::refused::Refused;
use super::restarts::Restarts;
use super::steering::Helm;
use super::udp::{Codecs, FarPrograms, Found, Outgoing, Programs, UdpParts};
use super::wish::Wish;
use crate::connector::{Link, LinkEnd, Stream};
use crate::protocol::{Capabilities, Datagram, Gathered, Opening};

/// The most addresses that were looked up and wait to be used.
const LOOK_UPS: usize = 64;

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
        let codecs = Arc::new(Codecs::new(context.means.clone()));
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
    pub(crate) async fn open(&self, opening: &Opening, running: RunningFlow) -> Result<Opened, Refused> {
        let wish = opening.manner.compression.and_then(|asked| Wish::new(asked, &self.context.means));
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
