//! The proxy: peers, their sessions, and the ways in.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use whimbrel::{Endpoint, PublicKey};
use whimbrel_service::{ActivityLog, Metrics, bind_advice};

use crate::intercept::Ingress;
use crate::policy::{Permits, Rules};
use crate::relay::{Flows, Peer, PeerState, SessionContext};
use crate::settings::{PeerSettings, Settings, SettingsError};

/// An error from starting a proxy. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings contradict one another.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address for programs cannot be used.
    #[error("cannot listen on {address} for programs: {}", advice(*address, error))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
}

/// Something that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Programs can connect here.
    Serves(&'static str, SocketAddr),
    /// A peer that is dialled came or went.
    Peer(Arc<str>, PeerState),
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Serves(what, address) => write!(f, "{what} on {address}"),
            Self::Peer(peer, PeerState::Connected) => write!(f, "connected to {peer}"),
            Self::Peer(peer, PeerState::Failed(why)) => {
                write!(f, "not connected to {peer}: {why}; trying again")
            }
            Self::Peer(peer, PeerState::Absent) => write!(f, "not connected to {peer}"),
        }
    }
}

/// A proxy that runs. Dropping it ends its tasks; the sessions stay with the endpoint.
#[derive(Debug)]
pub struct Proxy {
    settings: Settings,
    endpoint: Endpoint,
    peers: Arc<BTreeMap<PublicKey, Peer>>,
    flows: Flows,
    ingress: Option<Ingress>,
    ways_in: JoinSet<()>,
    sessions: JoinSet<()>,
}

/// What [`Proxy::status`] shows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProxyStatus {
    peers: Arc<BTreeMap<PublicKey, Peer>>,
    flows: Flows,
}

impl Proxy {
    /// Starts a proxy on this endpoint, which listens if the settings say so. `tell` hears of what people should know.
    ///
    /// # Errors
    /// The settings contradict one another, or an address cannot be used.
    pub async fn start(
        settings: &Settings,
        endpoint: &Endpoint,
        activity: Option<ActivityLog>,
        tell: impl Fn(News) + Clone + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        settings.check()?;
        let (flows, limits) = (Flows::default(), Arc::new(settings.limits.clone()));
        let mut peers = BTreeMap::new();
        for peer in &settings.peers {
            let key = peer.key()?;
            let context = SessionContext::new(
                &name(peer, &key),
                Permits::new(peer.may_open.iter().cloned()),
                Arc::clone(&limits),
                flows.clone(),
                activity.clone(),
            );
            peers.insert(key, Peer::new(context));
        }
        let mut proxy = Self {
            settings: settings.clone(),
            endpoint: endpoint.clone(),
            peers: Arc::new(peers),
            flows,
            ingress: None,
            ways_in: JoinSet::new(),
            sessions: JoinSet::new(),
        };
        // Ports first: if one is taken, nobody is dialled.
        proxy.let_in(settings, &limits, &tell).await?;
        proxy.dial(settings, endpoint, &tell);
        if settings.listen.is_some() {
            proxy.accept(endpoint);
        }
        Ok(proxy)
    }

    /// Lets no more programs in, and waits until the flows that run have ended. Returns how many are left, if it took
    /// longer than `patience`.
    pub async fn drain(&mut self, patience: Duration) -> usize {
        self.ways_in.shutdown().await;
        drop(tokio::time::timeout(patience, self.flows.drained()).await);
        self.flows.counts().0
    }

    /// Registers the proxy's metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.flows.register(metrics);
    }

    /// What the proxy shows of itself.
    pub fn status(&self) -> ProxyStatus {
        ProxyStatus { peers: Arc::clone(&self.peers), flows: self.flows.clone() }
    }

    /// Applies what can change while the proxy runs: what peers may open. It holds for new flows. Returns what has
    /// changed, and what needs a restart.
    pub fn reload(&mut self, new: &Settings) -> String {
        let mut said = Vec::new();
        for (key, peer) in &*self.peers {
            let wanted = new.peers.iter().find(|wanted| wanted.key().is_ok_and(|wanted| wanted == *key));
            let permits = wanted.map(|wanted| wanted.may_open.clone()).unwrap_or_default();
            let (permits, name) = (Permits::new(permits), &peer.context().peer);
            if *peer.context().permits() != permits {
                peer.context().set_permits(permits);
                said.push(format!("{name} may open something else"));
            }
            if self.settings.listen.is_some() {
                match wanted {
                    Some(_) => self.endpoint.allow(*key),
                    None if self.endpoint.revoke(key) > 0 => said.push(format!("{name} is let in no more")),
                    None => {}
                }
            }
        }
        if let Some(ingress) = self.ingress.as_ref().filter(|_| self.settings.rules != new.rules) {
            match ingress.lacks(&new.rules) {
                // Carried to another peer, flows would go where nobody wants them.
                Some(peer) => {
                    said.push(format!("the rules stay as they were, since the peer {peer} needs a restart"))
                }
                None => {
                    // The settings were checked.
                    ingress.set_rules(Rules::new(new.rules.clone()).unwrap_or_default());
                    self.settings.rules.clone_from(&new.rules);
                    said.push("rules changed, for new flows".to_owned());
                }
            }
        }
        let restart = self.settings.differences(new);
        if !restart.is_empty() {
            said.push(format!("a restart is needed for {}", restart.join(", ")));
        }
        if said.is_empty() { "nothing has changed".to_owned() } else { said.join("; ") }
    }

    async fn let_in(
        &mut self,
        settings: &Settings,
        limits: &Arc<crate::relay::Limits>,
        tell: &impl Fn(News),
    ) -> Result<(), StartError> {
        let Some(peer) = settings.peers.iter().find(|peer| peer.url.is_some()) else { return Ok(()) };
        let Some(peer) = self.peers.get(&peer.key()?).cloned() else { return Ok(()) };
        let rules = Rules::new(settings.rules.clone()).map_err(SettingsError::from)?;
        let peers = self.peers.values().cloned();
        let ingress = Ingress::new(peer, peers, rules, Arc::clone(limits), self.flows.clone());
        self.ingress = Some(ingress.clone());
        let ways = &settings.ways_in;
        if let Some(address) = ways.socks {
            let listener = listen(address, "SOCKS5", tell).await?;
            self.run(ingress.clone().serve_socks(listener, ways.users.clone()));
        }
        if let Some(address) = ways.connect {
            let listener = listen(address, "HTTP CONNECT", tell).await?;
            self.run(ingress.clone().serve_connect(listener));
        }
        for forward in &ways.forward {
            let listener = listen(forward.listen, "a forward", tell).await?;
            self.run(ingress.clone().serve_forward(listener, forward.target.clone()));
        }
        Ok(())
    }

    fn run(&mut self, serving: impl Future<Output = ()> + Send + 'static) {
        self.ways_in.spawn(serving);
    }

    fn dial(
        &mut self,
        settings: &Settings,
        endpoint: &Endpoint,
        tell: &(impl Fn(News) + Clone + Send + Sync + 'static),
    ) {
        for wanted in &settings.peers {
            let (Some(mut url), Ok(key)) = (wanted.url.clone(), wanted.key()) else { continue };
            let Some(peer) = self.peers.get(&key).cloned() else { continue };
            url.key = Some(key);
            let (endpoint, tell) = (endpoint.clone(), tell.clone());
            self.sessions.spawn(async move {
                let name = Arc::clone(&peer.context().peer);
                peer.dial(&endpoint, &url, |state| tell(News::Peer(Arc::clone(&name), state.clone()))).await;
            });
        }
    }

    /// Serves peers that connect. The endpoint lets in only keys that the settings name.
    fn accept(&mut self, endpoint: &Endpoint) {
        let (endpoint, peers) = (endpoint.clone(), Arc::clone(&self.peers));
        self.sessions.spawn(async move {
            let mut sessions = JoinSet::new();
            loop {
                let mocket = tokio::select! {
                    mocket = endpoint.accept() => mocket,
                    Some(_) = sessions.join_next() => continue,
                };
                let Some(mocket) = mocket else { return };
                match mocket.peer_key().and_then(|key| peers.get(&key)).cloned() {
                    Some(peer) => drop(sessions.spawn(async move { peer.attend(mocket).await })),
                    None => mocket.abort(0, "this proxy does not know your key"),
                }
            }
        });
    }
}

impl ProxyStatus {
    /// Returns the status of peers and flows.
    pub fn shown(&self) -> serde_json::Value {
        let peers: Vec<_> = self
            .peers
            .iter()
            .map(|(key, peer)| {
                let (state, why) = match peer.state() {
                    PeerState::Absent => ("absent", None),
                    PeerState::Connected => ("connected", None),
                    PeerState::Failed(why) => ("absent", Some(why)),
                };
                serde_json::json!({ "name": *peer.context().peer, "key": key.to_string(), "state": state, "why": why })
            })
            .collect();
        serde_json::json!({ "peers": peers, "flows": self.flows.shown() })
    }
}

fn advice(address: SocketAddr, error: &io::Error) -> String {
    bind_advice(address, error).unwrap_or_else(|| error.to_string())
}

fn name(peer: &PeerSettings, key: &PublicKey) -> String {
    peer.name.clone().unwrap_or_else(|| key.to_string())
}

async fn listen(
    address: SocketAddr,
    what: &'static str,
    tell: &impl Fn(News),
) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(address).await.map_err(|error| StartError::Bind { address, error })?;
    // The port may have been 0.
    tell(News::Serves(what, bound.local_addr().unwrap_or(address)));
    Ok(bound)
}
