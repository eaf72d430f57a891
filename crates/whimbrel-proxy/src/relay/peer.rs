//! A peer and its current session: dialled and dialled again, or waited for.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use whimbrel::{CloseReason, ConnectError, Endpoint, LocalPath, PublicKey};

use super::mark::Mark;
use super::session::{Session, SessionContext};
use super::udp::Programs;
use crate::connector::{Connector, Link, LinkEnd, PeerUrl, tcp};
use crate::policy::Network;

/// The pause before a peer is dialled again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a peer is not dialled while its session is being resumed.
const RESUMING: Duration = Duration::from_secs(60);
/// After this time without a path that works, flows go to a standby.
pub(crate) const GONE_AFTER: Duration = Duration::from_millis(500);

/// The state of a peer, as far as this end knows it.
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
    /// The addresses of this host over which it is reached. Empty: all.
    paths: Vec<LocalPath>,
    /// The sessions that live, the newest last.
    current: watch::Sender<(Vec<Arc<Session>>, PeerState)>,
}

/// The means to dial a peer.
#[derive(Clone, Debug)]
pub(crate) struct Dialler {
    pub(crate) endpoint: Endpoint,
    /// For peers that are dialled over TCP.
    pub(crate) keys: Option<tcp::Keys>,
    pub(crate) kept_out: KeptOut,
    pub(crate) mark: Mark,
}

/// Keys that have no sessions over TCP any more. For those over Whimbrel, the endpoint knows by itself. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptOut(Arc<Mutex<BTreeSet<PublicKey>>>);

impl KeptOut {
    pub(crate) fn set(&self, key: PublicKey, is_out: bool) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_out {
            keys.insert(key)
        } else {
            keys.remove(&key)
        };
    }

    fn check(&self, key: &PublicKey) -> Result<(), Option<String>> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(key) {
            true => Err(Some("its key is let in no more".to_owned())),
            false => Ok(()),
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
                self.kept_out.check(key)?;
                let dialled = tcp::dial(url, key, keys, self.mark).await;
                // That took time, in which it may have been taken out.
                self.kept_out.check(key)?;
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
        let standby = standby.map(Arc::from);
        Self(Arc::new(Inner { context: Arc::new(context), programs, standby, paths, current }))
    }

    /// Returns the context of all sessions with this peer.
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
    pub(crate) async fn attend(&self, link: Link) -> LinkEnd {
        let session = self.begin(link);
        self.serve(session).await
    }

    /// Begins to use a session. [`Peer::serve`] must run.
    pub(crate) fn begin(&self, link: Link) -> Arc<Session> {
        let programs = Arc::clone(&self.0.programs);
        let session = Session::new(link, Arc::clone(&self.0.context), programs, self.0.paths.clone());
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

    /// Dials the peer, and dials again whenever the session is over, until this end closes it. `tell` hears of each change.
    pub(crate) async fn dial(&self, dialler: &Dialler, url: &PeerUrl, tell: impl Fn(&PeerState)) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            match dialler.dial(url).await {
                Ok(link) => {
                    tell(&PeerState::Connected);
                    if self.attend(link).await.is_local {
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
            sleep(jittered(pause, RandomState::new().hash_one(pause))).await;
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
