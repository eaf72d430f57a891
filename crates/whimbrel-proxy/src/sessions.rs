//! A proxy that dials its peers, and serves those that connect.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use whimbrel::{Identity, PublicKey, Secret};

use crate::connector::{Link, PeerUrl, tcp};
use crate::news::{News, Tell};
use crate::proxy::Proxy;
use crate::relay::{Dialler, Halt, Peer, PeerState};

/// The keys and the listener that sessions over TCP need: see [`Connector::Tcp`](crate::Connector::Tcp).
#[derive(Debug)]
pub struct TcpConnector {
    /// The key that this end proves.
    pub identity: Identity,
    /// The pre-shared key.
    pub psk: Option<Secret>,
    /// The socket that peers connect to. It does not block.
    pub listener: Option<std::net::TcpListener>,
}

/// The most sessions of one peer over TCP. It needs one; more are of a peer that was restarted. The oldest ends for a new one.
const MOST_TCP_SESSIONS: usize = 16;

impl Proxy {
    /// Dials peers. Those with a session that was resumed are dialled once that is over.
    pub(crate) fn dial_all(&mut self, resumed: &BTreeSet<PublicKey>) {
        for wanted in self.settings.peers.clone() {
            let Ok(key) = wanted.key() else { continue };
            self.dial(key, wanted.dials(), resumed.contains(&key));
        }
    }

    /// Dials a peer at this URL from now on, or no more. `waits`: first, a session that is there has its time.
    pub(crate) fn dial(&mut self, key: PublicKey, url: Option<&PeerUrl>, waits: bool) {
        if let Some(former) = self.diallers.remove(&key) {
            former.set();
        }
        let (Some(mut url), Some(peer)) = (url.cloned(), self.peers.now().of_key(&key).cloned()) else {
            return;
        };
        url.url.key = Some(key);
        let (endpoint, mark) = (self.endpoint.clone(), self.common.mark);
        let dialler = Dialler { endpoint, keys: self.tcp.as_ref().map(keys), mark };
        let (halt, halted) = Halt::new();
        self.diallers.insert(key, halt);
        let tell = self.tell.clone();
        self.sessions.spawn(async move {
            if waits {
                peer.without_session().await;
            }
            let name = Arc::clone(&peer.context().peer);
            let tell = |state: &PeerState| (tell.0)(News::Peer(Arc::clone(&name), state.clone()));
            peer.dial(&dialler, &url, halted, tell).await;
        });
    }

    /// Serves peers that connect. The endpoint lets in only keys that the settings name.
    pub(crate) fn accept(&mut self) {
        let (endpoint, peers, admitted) = (self.endpoint.clone(), self.peers.clone(), self.admitted.clone());
        let tell = self.tell.clone();
        self.sessions.spawn(async move {
            let mut sessions = JoinSet::new();
            loop {
                let mocket = tokio::select! {
                    mocket = endpoint.accept() => mocket,
                    Some(_) = sessions.join_next() => continue,
                };
                let Some(mocket) = mocket else { return };
                let key = mocket.peer_key().filter(|key| admitted.has(key));
                match key.and_then(|key| peers.now().of_key(&key).cloned()) {
                    Some(peer) => drop(sessions.spawn(host(peer, Link::Whimbrel(mocket), tell.clone()))),
                    None => mocket.abort(0, "this proxy does not allow your key"),
                }
            }
        });
    }

    /// Serves peers that connect over TCP.
    pub(crate) fn accept_tcp(&mut self) {
        let Some(tcp) = &mut self.tcp else { return };
        let keys = keys(tcp);
        // The listener was made for this.
        let listener = tcp.listener.take().and_then(|listener| TcpListener::from_std(listener).ok());
        let Some(listener) = listener else { return };
        let (admitted, peers) = (self.admitted.clone(), self.peers.clone());
        let (links, mut linked) = tokio::sync::mpsc::unbounded_channel();
        let (tell, tell_refused) = (self.tell.clone(), self.tell.clone());
        let is_admitted = move |key: &PublicKey| admitted.ask(key, None, |news| (tell_refused.0)(news));
        // An error means that the proxy is gone.
        self.sessions.spawn(tcp::serve(listener, keys, is_admitted, move |link| drop(links.send(link))));
        self.sessions.spawn(async move {
            let mut sessions = JoinSet::new();
            loop {
                let link: tcp::TcpLink = tokio::select! {
                    link = linked.recv() => match link {
                        Some(link) => link,
                        None => return,
                    },
                    Some(_) = sessions.join_next() => continue,
                };
                let Some(peer) = peers.now().of_key(&link.peer_key()).cloned() else { continue };
                let others = peer.sessions();
                let over_tcp = others.iter().filter_map(|session| match session.link() {
                    Link::Tcp(link) => Some(link),
                    Link::Whimbrel(_) => None,
                });
                let surplus = (others.len() + 1).saturating_sub(MOST_TCP_SESSIONS);
                over_tcp.take(surplus).for_each(|link| link.abort("there are newer sessions"));
                sessions.spawn(host(peer, Link::Tcp(link), tell.clone()));
            }
        });
    }
}

/// Serves a peer that has connected, until this session is over. People hear of the first one, and when there is none any more.
async fn host(peer: Peer, link: Link, tell: Tell) {
    let name = Arc::clone(&peer.context().peer);
    if peer.session().is_none() {
        (tell.0)(News::Came(Arc::clone(&name)));
    }
    let end = peer.attend(link).await;
    if peer.session().is_none() && !end.is_local {
        (tell.0)(News::Went(name, end.why));
    }
}

fn keys(tcp: &TcpConnector) -> tcp::Keys {
    tcp::Keys { identity: tcp.identity.clone(), psk: tcp.psk.clone() }
}
