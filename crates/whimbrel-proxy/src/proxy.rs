//! The proxy: peers, their sessions, and the ways in.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use whimbrel::{Endpoint, Identity, PublicKey, Secret};
use whimbrel_service::{ActivityLog, Metrics, bind_advice};

use crate::compress::Budget;
use crate::connector::{Connector, Link, tcp};
use crate::handing_over::Unanswered;
use crate::intercept::Ingress;
use crate::intercept::tproxy::{Interception, TproxyError, TproxySettings};
use crate::intercept::tun::{TunError, TunInterception};
use crate::intercepting::blocking;
use crate::multicast::{Multicast, MulticastError};
use crate::policy::{Condition, Protocol, Rules};
use crate::relay::{
    Dialler, Dictionaries, DictionaryError, Flows, KeptOut, Limits, OwnPorts, Peer, PeerState, SessionContext,
};
use crate::settings::{PeerSettings, Settings, SettingsError};
use crate::upgrade::Parcel;

/// An error from starting a proxy. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings contradict one another.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A dictionary cannot be used.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// Groups cannot be joined.
    #[error(transparent)]
    Multicast(#[from] MulticastError),
    /// Traffic cannot be intercepted.
    #[error(transparent)]
    Tproxy(#[from] TproxyError),
    /// Traffic cannot be intercepted.
    #[error(transparent)]
    Tun(#[from] TunError),
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
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Programs can connect here.
    Serves(&'static str, SocketAddr),
    /// The fate of intercepted traffic from now on, in words.
    Interception(&'static str),
    /// Traffic is intercepted and not served, for this reason.
    Failed(String),
    /// A peer that is dialled came or went.
    Peer(Arc<str>, PeerState),
    /// New flows for the first go to the second, its standby, from now on, or no longer.
    Standby(Arc<str>, Arc<str>, bool),
    /// A session with this peer could not be handed over or taken over, for this reason. Its flows are reset.
    Lost(Arc<str>, String),
    /// A condition of rules holds towards this peer from now on, or no longer.
    Condition(Arc<str>, Condition, bool),
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Serves(what, address) => write!(f, "{what} on {address}"),
            Self::Interception(what) => f.write_str(what),
            Self::Failed(why) => write!(f, "intercepted traffic is not served: {why}"),
            Self::Peer(peer, PeerState::Connected) => write!(f, "connected to {peer}"),
            Self::Peer(peer, PeerState::Failed(why)) => {
                write!(f, "not connected to {peer}: {why}; trying again")
            }
            Self::Standby(peer, standby, true) => {
                write!(f, "{peer} cannot be reached: new flows go to {standby}")
            }
            Self::Standby(peer, _, false) => write!(f, "new flows go to {peer} again"),
            Self::Lost(peer, why) => write!(f, "the session with {peer} was lost on the way: {why}"),
            Self::Condition(peer, condition, true) => write!(f, "towards {peer}, `{condition}` holds now"),
            Self::Condition(peer, condition, false) => {
                write!(f, "towards {peer}, `{condition}` holds no longer")
            }
            Self::Peer(peer, PeerState::Absent) => write!(f, "not connected to {peer}"),
        }
    }
}

/// The parts that sessions over TCP need: see [`Connector::Tcp`].
#[derive(Debug)]
pub struct TcpConnector {
    /// The key that this end proves.
    pub identity: Identity,
    /// The pre-shared key.
    pub psk: Option<Secret>,
    /// Where peers connect to. It does not block.
    pub listener: Option<std::net::TcpListener>,
}

/// The most sessions of one peer over TCP. It needs one; more are of a peer that was restarted. The oldest ends for a new one.
const MOST_TCP_SESSIONS: usize = 16;
/// How long the end of sessions over TCP may take.
const CLOSING: Duration = Duration::from_secs(2);

/// A proxy that runs. Dropping it ends its tasks; the sessions stay with the endpoint.
#[derive(Debug)]
pub struct Proxy {
    settings: Settings,
    pub(crate) endpoint: Endpoint,
    tcp: Option<TcpConnector>,
    /// Who is let in over TCP.
    admitted: Arc<Mutex<BTreeSet<PublicKey>>>,
    /// Who is not dialled over TCP any more.
    kept_out: KeptOut,
    pub(crate) peers: Arc<BTreeMap<PublicKey, Peer>>,
    pub(crate) flows: Flows,
    pub(crate) limits: Arc<Limits>,
    pub(crate) ingress: Option<Ingress>,
    /// The ports at which peers reach this proxy itself.
    own: Arc<OwnPorts>,
    /// Where programs connect to, by way in and address as the settings have it.
    pub(crate) listeners: Vec<(String, std::net::TcpListener)>,
    pub(crate) ways_in: JoinSet<()>,
    /// Whether programs are served.
    goes: watch::Sender<bool>,
    /// It stays until flows have ended: their packets come by it, too.
    pub(crate) interception: Option<Interception>,
    /// The same by a TUN interface.
    pub(crate) tun: Option<TunInterception>,
    pub(crate) sessions: JoinSet<()>,
    pub(crate) unanswered: Arc<Unanswered>,
    pub(crate) tell: Tell,
}

/// Who hears of what people should know.
#[derive(Clone)]
pub(crate) struct Tell(pub(crate) Arc<dyn Fn(News) + Send + Sync>);

impl std::fmt::Debug for Tell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tell")
    }
}

/// The status that [`Proxy::status`] returns. Cheap to clone.
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
        let parcel = Parcel::default();
        let mut proxy = Self::prepare(settings, endpoint, activity, tell, &parcel).await?;
        proxy.go_on(parcel);
        Ok(proxy)
    }

    /// Prepares a proxy that goes on with what another process has handed over, on an endpoint with the same port. It carries
    /// nothing before [`Proxy::go_on`], so that the other process can still go on by itself.
    ///
    /// # Errors
    /// The settings contradict one another, or an address cannot be used.
    pub async fn prepare(
        settings: &Settings,
        endpoint: &Endpoint,
        activity: Option<ActivityLog>,
        tell: impl Fn(News) + Clone + Send + Sync + 'static,
        parcel: &Parcel,
    ) -> Result<Self, StartError> {
        settings.check()?;
        let flows = Flows::with_hold(settings.limits.hold_memory);
        let limits = Arc::new(settings.limits.clone());
        let dictionaries = Arc::new(Dictionaries::read(&settings.dictionaries)?);
        let budget = Budget::new(limits.max_compressed_flows, limits.compression_memory);
        let multicast = settings.multicast.as_ref();
        let multicast = multicast.map(|multicast| Multicast::new(multicast, settings.mark())).transpose()?;
        let own: Arc<OwnPorts> = Arc::default();
        if let Ok(address) = endpoint.local_addr() {
            own.add(Protocol::Udp, address);
        }
        let mut peers = BTreeMap::new();
        for peer in &settings.peers {
            let key = peer.key()?;
            let context = SessionContext::new(
                &name(peer, &key),
                peer.permits(),
                Arc::clone(&limits),
                flows.clone(),
                (Arc::clone(&dictionaries), &budget),
                activity.clone(),
            )
            .marked(settings.mark())
            .with_multicast(multicast.clone())
            .with_own(&own);
            let known = Peer::new(context, peer.standby.as_deref(), peer.paths.clone());
            peers.insert(key, known);
        }
        let mut proxy = Self {
            settings: settings.clone(),
            endpoint: endpoint.clone(),
            tcp: None,
            admitted: Arc::new(Mutex::new(settings.keys())),
            kept_out: KeptOut::default(),
            peers: Arc::new(peers),
            flows,
            limits: Arc::clone(&limits),
            ingress: None,
            own,
            listeners: Vec::new(),
            ways_in: JoinSet::new(),
            goes: watch::channel(false).0,
            interception: None,
            tun: None,
            sessions: JoinSet::new(),
            unanswered: Arc::default(),
            tell: Tell(Arc::new(tell.clone())),
        };
        // Ports first: if one is taken, nobody is dialled.
        proxy.let_in(settings, parcel, &tell).await?;
        if let Some(multicast) = multicast {
            let peers: Vec<_> = proxy.peers.values().cloned().collect();
            let carrying = multicast.carry(&peers)?;
            proxy.run(carrying);
        }
        Ok(proxy)
    }

    /// Sets what sessions over TCP need. Call it before [`Proxy::go_on`].
    pub fn set_tcp(&mut self, tcp: TcpConnector) {
        self.tcp = Some(tcp);
    }

    /// Goes on with what another process has handed over, dials peers, and serves programs and peers.
    pub fn go_on(&mut self, mut parcel: Parcel) {
        if let Some(interception) = parcel.interception.take() {
            interception.own(true);
            if let Err(why) = self.serve_intercepted(&interception) {
                (self.tell.0)(News::Failed(why.to_string()));
            }
            self.interception = Some(interception);
        }
        let resumed = parcel.sessions.iter().map(|session| session.note.peer).collect();
        self.unpack(parcel);
        self.dial(&resumed);
        match self.settings.listen.as_ref().map(|listen| listen.connector) {
            Some(Connector::Whimbrel) => self.accept(),
            Some(Connector::Tcp) => self.accept_tcp(),
            None => {}
        }
        self.goes.send_replace(true);
    }

    /// Lets no more programs in, and waits until the flows that run have ended. Returns how many are left, if it took
    /// longer than `patience`.
    pub async fn drain(&mut self, patience: Duration) -> usize {
        self.ways_in.shutdown().await;
        drop(tokio::time::timeout(patience, self.flows.drained()).await);
        // What was written last is still on its way.
        let closing = async {
            for session in self.peers.values().flat_map(Peer::sessions) {
                if let Link::Tcp(link) = session.link() {
                    link.close("the proxy was stopped").await;
                }
            }
        };
        drop(tokio::time::timeout(CLOSING, closing).await);
        self.flows.counts().0
    }

    /// Returns whether the proxy intercepts by a TUN interface, which no other process can go on with.
    pub fn keeps_interface(&self) -> bool {
        self.tun.is_some()
    }

    /// Returns whether a session may be carried by TCP.
    pub fn uses_tcp(&self) -> bool {
        self.settings.uses_tcp()
    }

    /// Registers the proxy's metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.flows.register(metrics);
    }

    /// Returns the proxy's status.
    pub fn status(&self) -> ProxyStatus {
        ProxyStatus { peers: Arc::clone(&self.peers), flows: self.flows.clone() }
    }

    /// Applies what can change while the proxy runs: what peers may open. It holds for new flows. Returns what has
    /// changed, and what needs a restart.
    pub fn reload(&mut self, new: &Settings) -> String {
        let mut said = Vec::new();
        for (key, peer) in &*self.peers {
            let wanted = new.peers.iter().find(|wanted| wanted.key().is_ok_and(|wanted| wanted == *key));
            let permits = wanted.map(PeerSettings::permits).unwrap_or_default();
            let name = &peer.context().peer;
            if *peer.context().permits() != permits {
                peer.context().set_permits(permits);
                said.push(format!("{name} may open something else"));
            }
            if self.settings.listen.is_some() {
                self.kept_out.set(*key, wanted.is_none());
                match wanted {
                    Some(wanted) if wanted.may_come() => self.let_peer_in(*key),
                    // A session that this end has dialled goes on.
                    Some(_) => {}
                    None if self.keep_peer_out(peer, key) > 0 => {
                        said.push(format!("{name} is let in no more"));
                    }
                    None => {}
                }
            }
        }
        if let Some(ingress) = self.ingress.as_ref().filter(|_| self.settings.rules != new.rules) {
            let lacks = ingress
                .lacks(&new.rules)
                .map(|name| format!("peer {name}"))
                .or_else(|| ingress.lacks_dictionary(&new.rules).map(|name| format!("dictionary {name}")));
            match lacks {
                // Carried to another peer, flows would go where nobody wants them.
                Some(what) => {
                    said.push(format!("the rules stay as they were, since the {what} needs a restart"))
                }
                None => {
                    // The settings were checked.
                    ingress.set_rules(Rules::new(new.rules.clone()).unwrap_or_default());
                    if let (Some(running), Some(settings)) =
                        (&self.interception, &self.settings.ways_in.tproxy)
                    {
                        let tell = self.tell.clone();
                        running.follow(settings, ingress, move |what| (tell.0)(News::Interception(what)));
                    }
                    self.settings.rules.clone_from(&new.rules);
                    said.push("rules changed".to_owned());
                }
            }
        }
        let restart = self.settings.differences(new);
        if !restart.is_empty() {
            said.push(format!("a restart is needed for {}", restart.join(", ")));
        }
        if said.is_empty() { "nothing has changed".to_owned() } else { said.join("; ") }
    }

    fn let_peer_in(&self, key: PublicKey) {
        self.endpoint.allow(key);
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// Lets a peer in no more. Returns the number of sessions that end.
    fn keep_peer_out(&self, peer: &Peer, key: &PublicKey) -> usize {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        let mut ended = self.endpoint.revoke(key);
        for session in peer.sessions() {
            if let Link::Tcp(link) = session.link() {
                link.abort("your key is let in no more");
                ended += 1;
            }
        }
        ended
    }

    async fn let_in(
        &mut self,
        settings: &Settings,
        parcel: &Parcel,
        tell: &(impl Fn(News) + Clone + Send + Sync + 'static),
    ) -> Result<(), StartError> {
        let handed = &parcel.listeners;
        if parcel.interception.is_some() && settings.ways_in.tproxy.is_none() {
            return Err(TproxyError::Without.into());
        }
        let Some(peer) = settings.first() else { return Ok(()) };
        let Some(peer) = self.peers.get(&peer.key()?).cloned() else { return Ok(()) };
        let rules = Rules::new(settings.rules.clone()).map_err(SettingsError::from)?;
        let peers = self.peers.values().cloned();
        let ingress = Ingress::new(peer, peers, rules, Arc::clone(&self.limits), self.flows.clone());
        self.ingress = Some(ingress.clone());
        let (watching, tell_condition) = (ingress.clone(), tell.clone());
        self.sessions.spawn(watching.watch_network(tell_condition));
        let ways = &settings.ways_in;
        if let Some(address) = ways.socks {
            let listener = self.listen(address, "SOCKS5", handed, tell).await?;
            self.run(ingress.clone().serve_socks(listener, ways.users.clone()));
        }
        if let Some(address) = ways.connect {
            let listener = self.listen(address, "HTTP CONNECT", handed, tell).await?;
            self.run(ingress.clone().serve_connect(listener));
        }
        for forward in &ways.forward {
            let listener = self.listen(forward.listen, "a forward", handed, tell).await?;
            self.run(ingress.clone().serve_forward(listener, forward.target.clone()));
        }
        if let Some(settings) = &ways.tun {
            self.intercept_by_tun(settings, ingress.clone(), tell.clone()).await?;
        }
        match (&ways.tproxy, &parcel.interception) {
            (Some(settings), Some(running)) => Ok(running.keeps(settings)?),
            (Some(settings), None) => self.intercept(settings).await,
            (None, _) => Ok(()),
        }
    }

    async fn intercept(&mut self, settings: &TproxySettings) -> Result<(), StartError> {
        let (settings, rules) = (settings.clone(), self.settings.rules.clone());
        let interception = blocking(move || Interception::start(&settings, &rules)).await?;
        (self.tell.0)(News::Interception("traffic is intercepted"));
        self.serve_intercepted(&interception)?;
        self.interception = Some(interception);
        Ok(())
    }

    fn serve_intercepted(&mut self, interception: &Interception) -> Result<(), TproxyError> {
        let (Some(settings), Some(ingress)) = (&self.settings.ways_in.tproxy, &self.ingress) else {
            return Ok(());
        };
        let tell = self.tell.clone();
        let tell = move |what| (tell.0)(News::Interception(what));
        let serving = interception.serve(settings, ingress.clone(), tell)?;
        self.run(serving);
        Ok(())
    }

    /// Listens for programs. An address on which the former process has listened is taken over.
    async fn listen(
        &mut self,
        address: SocketAddr,
        what: &'static str,
        handed: &[(String, OwnedFd)],
        tell: &impl Fn(News),
    ) -> Result<TcpListener, StartError> {
        let failed = |error| StartError::Bind { address, error };
        let name = format!("{what} {address}");
        // Two forwards may ask for any port.
        let before = self.listeners.iter().filter(|(known, _)| *known == name).count();
        let bound = match handed.iter().filter(|(known, _)| *known == name).nth(before) {
            Some((_, file)) => std::net::TcpListener::from(file.try_clone().map_err(failed)?),
            None => TcpListener::bind(address).await.and_then(TcpListener::into_std).map_err(failed)?,
        };
        self.listeners.push((name, bound.try_clone().map_err(failed)?));
        let listener = TcpListener::from_std(bound).map_err(failed)?;
        if let Ok(address) = listener.local_addr() {
            self.own.add(Protocol::Tcp, address);
        }
        // The port may have been 0.
        tell(News::Serves(what, listener.local_addr().unwrap_or(address)));
        Ok(listener)
    }

    /// Serves programs, once the proxy goes on.
    pub(crate) fn run(&mut self, serving: impl Future<Output = ()> + Send + 'static) {
        let mut goes = self.goes.subscribe();
        self.ways_in.spawn(async move {
            // An error means that the proxy is gone.
            if goes.wait_for(|goes| *goes).await.is_ok() {
                serving.await;
            }
        });
    }

    fn dial(&mut self, resumed: &BTreeSet<PublicKey>) {
        for wanted in &self.settings.peers {
            let (Some(mut url), Ok(key)) = (wanted.dials().cloned(), wanted.key()) else { continue };
            let Some(peer) = self.peers.get(&key).cloned() else { continue };
            url.url.key = Some(key);
            let dialler = Dialler {
                endpoint: self.endpoint.clone(),
                keys: self.tcp.as_ref().map(keys),
                kept_out: self.kept_out.clone(),
                mark: self.settings.mark(),
            };
            let tell = self.tell.clone();
            let is_resumed = resumed.contains(&key);
            self.sessions.spawn(async move {
                if is_resumed {
                    peer.without_session().await;
                }
                let name = Arc::clone(&peer.context().peer);
                peer.dial(&dialler, &url, |state| (tell.0)(News::Peer(Arc::clone(&name), state.clone())))
                    .await;
            });
        }
    }

    /// Serves peers that connect. The endpoint lets in only keys that the settings name.
    fn accept(&mut self) {
        let (endpoint, peers) = (self.endpoint.clone(), Arc::clone(&self.peers));
        self.sessions.spawn(async move {
            let mut sessions = JoinSet::new();
            loop {
                let mocket = tokio::select! {
                    mocket = endpoint.accept() => mocket,
                    Some(_) = sessions.join_next() => continue,
                };
                let Some(mocket) = mocket else { return };
                match mocket.peer_key().and_then(|key| peers.get(&key)).cloned() {
                    Some(peer) => {
                        drop(sessions.spawn(async move { peer.attend(Link::Whimbrel(mocket)).await }))
                    }
                    None => mocket.abort(0, "this proxy does not know your key"),
                }
            }
        });
    }

    /// Serves peers that connect over TCP.
    fn accept_tcp(&mut self) {
        let Some(tcp) = &mut self.tcp else { return };
        let keys = keys(tcp);
        // The listener was made for this.
        let listener = tcp.listener.take().and_then(|listener| TcpListener::from_std(listener).ok());
        let Some(listener) = listener else { return };
        let (admitted, peers) = (Arc::clone(&self.admitted), Arc::clone(&self.peers));
        let (links, mut linked) = tokio::sync::mpsc::unbounded_channel();
        let is_admitted =
            move |key: &PublicKey| admitted.lock().unwrap_or_else(PoisonError::into_inner).contains(key);
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
                let Some(peer) = peers.get(&link.peer_key()).cloned() else { continue };
                let others = peer.sessions();
                let over_tcp = others.iter().filter_map(|session| match session.link() {
                    Link::Tcp(link) => Some(link),
                    Link::Whimbrel(_) => None,
                });
                let surplus = (others.len() + 1).saturating_sub(MOST_TCP_SESSIONS);
                over_tcp.take(surplus).for_each(|link| link.abort("there are newer sessions"));
                sessions.spawn(async move { peer.attend(Link::Tcp(link)).await });
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
                    PeerState::Connected if !peer.is_usable() => ("unreachable", None),
                    PeerState::Connected => ("connected", None),
                    PeerState::Failed(why) => ("absent", Some(why)),
                };
                let connector = peer.session().map(|session| session.link().connector());
                serde_json::json!({
                    "name": *peer.context().peer, "key": key.to_string(), "state": state, "why": why, "connector": connector,
                })
            })
            .collect();
        serde_json::json!({ "peers": peers, "flows": self.flows.shown() })
    }
}

fn keys(tcp: &TcpConnector) -> tcp::Keys {
    tcp::Keys { identity: tcp.identity.clone(), psk: tcp.psk.clone() }
}

fn advice(address: SocketAddr, error: &io::Error) -> String {
    bind_advice(address, error).unwrap_or_else(|| error.to_string())
}

fn name(peer: &PeerSettings, key: &PublicKey) -> String {
    peer.name.clone().unwrap_or_else(|| key.to_string())
}
