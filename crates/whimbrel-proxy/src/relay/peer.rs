//! A peer and its current session: dialled and dialled again, or waited for.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use whimbrel::{CloseReason, ConnectError, Endpoint, LocalPath, Paths};

use super::context::SessionContext;
use super::peer_state::PeerState;
use super::session::Session;
use super::udp::Programs;
use crate::connector::{Connector, Link, LinkEnd, PeerUrl, tcp};
use crate::policy::Network;
use crate::sockets::Mark;

/// The pause before a peer is dialled again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a peer is not dialled while its session is being resumed.
const RESUMING: Duration = Duration::from_secs(60);
/// How often it is looked at whether a session still has flows.
const LOOK: Duration = Duration::from_secs(1);
/// Why a session ends whose peer is none any more.
pub(crate) const NO_PEER: &str = "its key is no longer allowed";
/// After this time without a path that works, flows go to a standby.
pub(crate) const GONE_AFTER: Duration = Duration::from_millis(500);

/// A peer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Arc<SessionContext>,
    programs: Arc<Programs>,
    /// The name of the peer that new flows go to while this one cannot be reached.
    standby: Mutex<Option<Arc<str>>>,
    /// The paths over which it is reached. None: as the endpoint has them.
    paths: watch::Sender<Option<Paths>>,
    /// Whether it is a peer no more.
    gone: watch::Sender<bool>,
    /// The sessions that live, the newest last.
    current: watch::Sender<(Vec<Arc<Session>>, PeerState)>,
}

/// The means to dial a peer.
#[derive(Clone, Debug)]
pub(crate) struct Dialler {
    pub(crate) endpoint: Endpoint,
    /// For peers that are dialled over TCP.
    pub(crate) keys: Option<tcp::Keys>,
    pub(crate) mark: Mark,
}

/// The end of dialling a peer at one URL, from the side that dials. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Halted(watch::Receiver<bool>);

/// Ends dialling. Dropping it does not.
#[derive(Debug)]
pub(crate) struct Halt(watch::Sender<bool>);

impl Halt {
    pub(crate) fn new() -> (Self, Halted) {
        let (send, halted) = watch::channel(false);
        (Self(send), Halted(halted))
    }

    /// Nobody dials any more. A session that is there goes on.
    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }
}

impl Halted {
    async fn wait(&mut self) {
        if self.0.wait_for(|halted| *halted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Dialler {
    /// Dials. An error of `None`: this end has been closed.
    async fn dial(&self, PeerUrl { connector, url }: &PeerUrl) -> Result<Link, Option<String>> {
        match connector {
            Connector::Whimbrel => match self.endpoint.connect(url).await {
                Ok(mocket) => Ok(Link::Whimbrel(mocket)),
                Err(ConnectError::EndpointClosed | ConnectError::Closed(CloseReason::Local)) => Err(None),
                Err(error) => Err(Some(error.to_string())),
            },
            Connector::Tcp => {
                let key = url.key.as_ref().ok_or_else(|| Some("the URL has no key".to_owned()))?;
                let keys =
                    self.keys.as_ref().ok_or_else(|| Some("this proxy has no keys for TCP".to_owned()))?;
                let dialled = tcp::dial(url, key, keys, self.mark).await;
                dialled.map(Link::Tcp).map_err(|error| Some(error.to_string()))
            }
        }
    }
}

impl Peer {
    /// A peer without a session. It is reached over `paths`, or over all if they are empty.
    pub fn new(context: SessionContext, standby: Option<&str>, paths: Vec<LocalPath>) -> Self {
        let (current, _) = watch::channel((Vec::new(), PeerState::Absent));
        let programs = Arc::new(Programs::new(&context.peer));
        let standby = Mutex::new(standby.map(Arc::from));
        let paths = Some(paths).filter(|paths| !paths.is_empty()).map(Paths::Only);
        let (paths, gone) = (watch::channel(paths).0, watch::channel(false).0);
        Self(Arc::new(Inner { context: Arc::new(context), programs, standby, paths, gone, current }))
    }

    /// Returns the context of all sessions with this peer.
    pub fn context(&self) -> &Arc<SessionContext> {
        &self.0.context
    }

    /// The name of its standby.
    pub(crate) fn standby(&self) -> Option<Arc<str>> {
        self.0.standby.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets its standby.
    pub(crate) fn set_standby(&self, name: Option<&str>) {
        *self.0.standby.lock().unwrap_or_else(PoisonError::into_inner) = name.map(Arc::from);
    }

    /// Sets the paths of its sessions, of those that there are and of later ones.
    pub(crate) fn set_paths(&self, paths: Paths) {
        self.0.paths.send_replace(Some(paths));
    }

    /// Returns whether both are the same peer, and not only of one name.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// It is a peer no more: its sessions end, and it gets none. Returns how many there were.
    pub(crate) fn end(&self, why: &str) -> usize {
        self.0.gone.send_replace(true);
        let sessions = self.sessions();
        sessions.iter().for_each(|session| session.link().abort(why));
        sessions.len()
    }

    /// Waits until it is a peer no more.
    pub(crate) async fn gone(&self) {
        // The sender lives as long as this.
        self.0.gone.subscribe().wait_for(|gone| *gone).await.ok();
    }

    /// The UDP programs at this end that use the peer.
    pub fn programs(&self) -> &Arc<Programs> {
        &self.0.programs
    }

    /// Returns what is known of it.
    pub fn state(&self) -> PeerState {
        self.0.current.borrow().1.clone()
    }

    /// Returns the newest session, if there is one.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.0.current.borrow().0.last().cloned()
    }

    /// Returns whether it has a session over which it can be reached, or could a moment ago.
    pub(crate) fn is_usable(&self) -> bool {
        self.session().is_some_and(|session| !session.reached().is_lost(GONE_AFTER))
    }

    /// Returns the state of the network towards it.
    pub(crate) fn network(&self) -> Network {
        self.session().map(|session| session.link().network()).unwrap_or_default()
    }

    /// Waits for a session, at most so long.
    pub async fn session_within(&self, limit: Duration) -> Option<Arc<Session>> {
        let mut watching = self.0.current.subscribe();
        let lives = |session: &&Arc<Session>| !session.is_over();
        let there = timeout(limit, watching.wait_for(|(sessions, _)| sessions.iter().any(|one| lives(&one))));
        there.await.ok()?.ok()?.0.iter().rev().find(lives).cloned()
    }

    /// Uses this session until it is over. New flows go to the newest one.
    pub(crate) async fn attend(&self, link: Link) -> LinkEnd {
        let session = self.begin(link);
        self.serve(session).await
    }

    /// Begins to use a session. [`Peer::serve`] must run.
    pub(crate) fn begin(&self, link: Link) -> Arc<Session> {
        let programs = Arc::clone(&self.0.programs);
        let paths = self.0.paths.subscribe();
        let session = Session::new(link, Arc::clone(&self.0.context), programs, paths);
        self.0.current.send_modify(|(sessions, state)| {
            sessions.push(Arc::clone(&session));
            *state = PeerState::Connected;
        });
        // It may have begun just before.
        if *self.0.gone.borrow() {
            session.link().abort(NO_PEER);
        }
        session
    }

    /// Returns all sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.0.current.borrow().0.clone()
    }

    /// Serves the peer over a session until that is over.
    pub(crate) async fn serve(&self, session: Arc<Session>) -> LinkEnd {
        let end = Arc::clone(&session).serve().await;
        self.0.context.note("session ended", serde_json::json!({ "why": end.why }));
        self.0.current.send_modify(|(sessions, state)| {
            sessions.retain(|other| !Arc::ptr_eq(other, &session));
            if sessions.is_empty() {
                *state = PeerState::Failed(end.why.clone());
            }
        });
        end
    }

    /// Waits until a session that is being resumed is there, for a while, and then until there is none.
    pub(crate) async fn without_session(&self) {
        if self.session_within(RESUMING).await.is_some() {
            let mut watching = self.0.current.subscribe();
            drop(watching.wait_for(|(sessions, _)| sessions.is_empty()).await);
        }
    }

    /// Ends a session once there is a newer one and no flow is left on this.
    pub(crate) async fn supersede(&self, session: Arc<Session>) {
        let mut watching = self.0.current.subscribe();
        let newest =
            |sessions: &[Arc<Session>]| sessions.last().is_none_or(|newest| Arc::ptr_eq(newest, &session));
        let mut over = session.reached();
        loop {
            tokio::select! {
                // The sender lives as long as this.
                there = watching.wait_for(|(sessions, _)| !newest(sessions)) => drop(there),
                () = over.over() => return,
            }
            if !session.link().has_streams() {
                return session.link().close("the peer is reached elsewhere").await;
            }
            sleep(LOOK).await;
        }
    }

    /// Dials the peer, and dials again whenever the session is over, until this end closes it or nobody is to dial any more.
    /// `tell` hears of each change.
    pub(crate) async fn dial(
        &self,
        dialler: &Dialler,
        url: &PeerUrl,
        mut halted: Halted,
        tell: impl Fn(&PeerState),
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let dialled = tokio::select! {
                biased;
                () = halted.wait() => return,
                dialled = dialler.dial(url) => dialled,
            };
            match dialled {
                Ok(link) => {
                    // Whoever is told finds the session.
                    let session = self.begin(link);
                    tell(&PeerState::Connected);
                    if self.serve(session).await.is_local {
                        return;
                    }
                    tell(&self.state());
                }
                Err(None) => return,
                Err(Some(error)) => {
                    let failed = PeerState::Failed(error);
                    if self.session().is_none() && self.state() != failed {
                        tell(&failed);
                        self.0.current.send_modify(|(_, state)| *state = failed);
                    }
                }
            }
            // Who was connected for a while is dialled again at once.
            pause =
                if began.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            tokio::select! {
                () = halted.wait() => return,
                () = sleep(jittered(pause, RandomState::new().hash_one(pause))) => {}
            }
        }
    }
}

/// A pause of half to the whole of that, so that peers of one proxy that was restarted do not come all at once.
fn jittered(pause: Duration, random: u64) -> Duration {
    pause / 2 + (pause / 2).mul_f64(random as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_and_are_never_short_or_long() {
        let pauses: std::collections::BTreeSet<_> =
            (0..100).map(|_| jittered(LONGEST_PAUSE, RandomState::new().hash_one(LONGEST_PAUSE))).collect();
        assert!(pauses.len() > 50, "{pauses:?}");
        assert!(pauses.iter().all(|pause| (LONGEST_PAUSE / 2..=LONGEST_PAUSE).contains(pause)));
        assert_eq!(
            (jittered(FIRST_PAUSE, 0), jittered(FIRST_PAUSE, u64::MAX)),
            (FIRST_PAUSE / 2, FIRST_PAUSE)
        );
    }
}
