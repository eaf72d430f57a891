//! A peer and its current session: dialled and dialled again, or waited for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use whimbrel::Endpoint;

use super::mark::Mark;
use super::session::{Session, SessionContext};
use super::udp::Programs;
use crate::connector::{Connector, Link, PeerUrl, tcp};
use crate::policy::Network;

/// The pause before a peer is dialled again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a peer is not dialled while its session is being resumed.
const RESUMING: Duration = Duration::from_secs(60);
/// After this time without a path that works, flows go to a standby.
pub(crate) const GONE_AFTER: Duration = Duration::from_millis(500);

/// What is known of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It is being dialled, or waited for.
    Absent,
    /// A session is there.
    Connected,
    /// The last attempt failed so.
    Failed(String),
}

/// A peer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Arc<SessionContext>,
    programs: Arc<Programs>,
    /// The name of the peer that new flows go to while this one cannot be reached.
    standby: Option<Arc<str>>,
    /// The sessions that live, the newest last.
    current: watch::Sender<(Vec<Arc<Session>>, PeerState)>,
}

/// What dials.
#[derive(Clone, Debug)]
pub(crate) struct Dialler {
    pub(crate) endpoint: Endpoint,
    /// For peers that are dialled over TCP.
    pub(crate) keys: Option<tcp::Keys>,
    pub(crate) mark: Mark,
}

impl Dialler {
    async fn dial(&self, PeerUrl { connector, url }: &PeerUrl) -> Result<Link, String> {
        match connector {
            Connector::Whimbrel => {
                let connected = self.endpoint.connect(url).await;
                connected.map(Link::Whimbrel).map_err(|error| error.to_string())
            }
            Connector::Tcp => {
                let key = url.key.as_ref().ok_or("the URL has no key")?;
                let keys = self.keys.as_ref().ok_or("this proxy has no keys for TCP")?;
                let dialled = tcp::dial(url, key, keys, self.mark).await;
                dialled.map(Link::Tcp).map_err(|error| error.to_string())
            }
        }
    }
}

impl Peer {
    /// A peer without a session.
    pub fn new(context: SessionContext, standby: Option<&str>) -> Self {
        let (current, _) = watch::channel((Vec::new(), PeerState::Absent));
        let programs = Arc::new(Programs::new(&context.peer));
        let standby = standby.map(Arc::from);
        Self(Arc::new(Inner { context: Arc::new(context), programs, standby, current }))
    }

    /// What holds for this peer.
    pub fn context(&self) -> &Arc<SessionContext> {
        &self.0.context
    }

    /// The name of its standby.
    pub(crate) fn standby(&self) -> Option<&Arc<str>> {
        self.0.standby.as_ref()
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
        let there = timeout(limit, watching.wait_for(|(sessions, _)| !sessions.is_empty())).await;
        there.ok()?.ok()?.0.last().cloned()
    }

    /// Uses this session until it is over. New flows go to the newest one.
    pub(crate) async fn attend(&self, link: Link) {
        let session = self.begin(link);
        self.serve(session).await;
    }

    /// Begins to use a session. [`Peer::serve`] must run.
    pub(crate) fn begin(&self, link: Link) -> Arc<Session> {
        let session = Session::new(link, Arc::clone(&self.0.context), Arc::clone(&self.0.programs));
        self.0.current.send_modify(|(sessions, state)| {
            sessions.push(Arc::clone(&session));
            *state = PeerState::Connected;
        });
        session
    }

    /// Returns all sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.0.current.borrow().0.clone()
    }

    /// Serves the peer over a session until that is over.
    pub(crate) async fn serve(&self, session: Arc<Session>) {
        let reason = Arc::clone(&session).serve().await;
        self.0.context.note("session ended", serde_json::json!({ "why": reason }));
        self.0.current.send_modify(|(sessions, state)| {
            sessions.retain(|other| !Arc::ptr_eq(other, &session));
            if sessions.is_empty() {
                *state = PeerState::Failed(reason);
            }
        });
    }

    /// Waits until a session that is being resumed is there, for a while, and then until there is none.
    pub(crate) async fn without_session(&self) {
        if self.session_within(RESUMING).await.is_some() {
            let mut watching = self.0.current.subscribe();
            drop(watching.wait_for(|(sessions, _)| sessions.is_empty()).await);
        }
    }

    /// Dials the peer, and dials again whenever the session is over. `tell` hears of each change.
    pub(crate) async fn dial(&self, dialler: &Dialler, url: &PeerUrl, tell: impl Fn(&PeerState)) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            match dialler.dial(url).await {
                Ok(link) => {
                    tell(&PeerState::Connected);
                    self.attend(link).await;
                    tell(&self.state());
                }
                Err(error) => {
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
            sleep(pause).await;
        }
    }
}
