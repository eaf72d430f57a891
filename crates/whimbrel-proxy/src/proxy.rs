//! The proxy: peers, their sessions, and the ways in.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use whimbrel::{Endpoint, Paths, PublicKey};
use whimbrel_pubsub::client::Client;
use whimbrel_service::{ActivityLog, Metrics, bind_advice};

use crate::admission::Admission;
use crate::common::Common;
use crate::compress::Budget;
use crate::connector::{Connector, Link};
use crate::handing_over::Unanswered;
use crate::intercept::Ingress;
use crate::intercept::tproxy::{Interception, TproxyError};
use crate::intercept::tun::{TunError, TunInterception};
use crate::multicast::{Multicast, MulticastError};
use crate::news::{News, Tell};
use crate::policy::Protocol;
use crate::protocol::Announcement;
use crate::proxy_status::ProxyStatus;
use crate::relay::{Dictionaries, DictionaryError, Flows, Halt, Peers, Roster};
use crate::sessions::TcpConnector;
use crate::settings::Settings;
use crate::settings_error::SettingsError;
use crate::sockets::may_speak;
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
    /// The process may not speak for others.
    #[error(
        "`source` of a [[peer]] needs root (CAP_NET_ADMIN or CAP_NET_RAW), on Linux: run the proxy as root, or remove the setting ({0})"
    )]
    Source(io::Error),
    /// An address for programs cannot be used.
    #[error("cannot listen on {address} for programs: {}", advice(*address, error))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
}

/// How long the end of sessions over TCP may take.
const CLOSING: Duration = Duration::from_secs(2);

/// A proxy that runs. Dropping it ends its tasks; the sessions stay with the endpoint.
#[derive(Debug)]
pub struct Proxy {
    pub(crate) settings: Settings,
    pub(crate) endpoint: Endpoint,
    pub(crate) tcp: Option<TcpConnector>,
    /// The paths of peers that have none of their own.
    pub(crate) paths: Paths,
    pub(crate) admitted: Admission,
    pub(crate) peers: Roster,
    /// For each peer that is dialled, the handle that ends the dialling.
    pub(crate) diallers: BTreeMap<PublicKey, Halt>,
    pub(crate) common: Common,
    pub(crate) ingress: Option<Ingress>,
    /// Where programs connect to, by way in and address as the settings have it.
    pub(crate) listeners: Vec<(String, std::net::TcpListener)>,
    pub(crate) ways_in: JoinSet<()>,
    /// Whether programs are served.
    pub(crate) goes: watch::Sender<bool>,
    /// It stays until flows have ended: their packets come by it, too.
    pub(crate) interception: Option<Interception>,
    /// Interception by a TUN interface.
    pub(crate) tun: Option<TunInterception>,
    pub(crate) sessions: JoinSet<()>,
    pub(crate) unanswered: Arc<Unanswered>,
    pub(crate) tell: Tell,
}

impl Proxy {
    /// Starts a proxy on this endpoint, which listens if the settings say so. `tell` hears of what people should know.
    ///
    /// # Errors
    /// The settings contradict each other, or an address cannot be used.
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
    /// The settings contradict each other, or an address cannot be used.
    pub async fn prepare(
        settings: &Settings,
        endpoint: &Endpoint,
        activity: Option<ActivityLog>,
        tell: impl Fn(News) + Clone + Send + Sync + 'static,
        parcel: &Parcel,
    ) -> Result<Self, StartError> {
        settings.check()?;
        if settings.peers.iter().any(|peer| peer.permits().speaks()) {
            may_speak().map_err(StartError::Source)?;
        }
        let limits = Arc::new(settings.limits.clone());
        let multicast = settings.multicast.as_ref();
        let multicast = multicast.map(|multicast| Multicast::new(multicast, settings.mark())).transpose()?;
        let common = Common {
            flows: Flows::with_hold(limits.hold_memory),
            dictionaries: Arc::new(Dictionaries::read(&settings.dictionaries)?),
            compression: Budget::new(limits.max_compressed_flows, limits.compression_memory),
            limits,
            activity,
            mark: settings.mark(),
            multicast,
            own: Arc::default(),
        };
        if let Ok(address) = endpoint.local_addr() {
            common.own.add(Protocol::Udp, address);
        }
        let peers = settings.peers.iter().map(|peer| common.peer(peer)).collect::<Result<Vec<_>, _>>()?;
        let mut proxy = Self {
            settings: settings.clone(),
            endpoint: endpoint.clone(),
            tcp: None,
            paths: Paths::default(),
            admitted: Admission::new(settings.keys()),
            peers: Roster::new(Peers::new(peers, settings.first_key().as_ref())),
            diallers: BTreeMap::new(),
            common,
            ingress: None,
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
        if let Some(multicast) = proxy.common.multicast.clone() {
            let peers = proxy.peers.clone();
            let send = move |names: &[String], announcement: &Announcement, payload: &[u8]| {
                peers.send(names, announcement, payload);
            };
            let carrying = multicast.carry(send)?;
            proxy.run(carrying);
        }
        Ok(proxy)
    }

    /// Sets the paths of peers that have none of their own: those of the endpoint. Peers that lose their own use them.
    pub fn set_paths(&mut self, paths: Paths) {
        self.paths = paths;
    }

    /// Sets what sessions over TCP need. Call it before [`Proxy::go_on`].
    pub fn set_tcp(&mut self, tcp: TcpConnector) {
        self.tcp = Some(tcp);
    }

    /// Sets who may connect; the endpoint consults it, too. Call it before [`Proxy::go_on`]. Without it, the endpoint admits keys of peers
    /// until it is closed.
    pub fn set_admission(&mut self, admission: Admission) {
        self.admitted = admission;
    }

    /// Sets the client by which groups go through a broker: see [`BrokerSettings`](crate::BrokerSettings). Call it before [`Proxy::go_on`].
    pub fn set_broker(&mut self, client: Client) {
        let Some(multicast) = &self.common.multicast else { return };
        let tell = self.tell.clone();
        let told = move |why| (tell.0)(News::Groups(why));
        if let Some(disseminating) = multicast.disseminate(client, told) {
            self.run(disseminating);
        }
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
        if let Some(mut tun) = parcel.tun.take() {
            tun.own(true);
            if let Err(why) = self.serve_tun(&mut tun) {
                (self.tell.0)(News::Failed(why.to_string()));
            }
            self.tun = Some(tun);
        }
        let resumed = parcel.sessions.iter().map(|session| session.note.peer).collect();
        self.unpack(parcel);
        self.dial_all(&resumed);
        match self.settings.listen.as_ref().map(|listen| listen.connector) {
            Some(Connector::Whimbrel) => self.accept(),
            Some(Connector::Tcp) => self.accept_tcp(),
            None => {}
        }
        self.goes.send_replace(true);
    }

    /// Stops accepting programs and peers, and waits until running flows have ended. Returns how many are left after `patience`.
    pub async fn drain(&mut self, patience: Duration) -> usize {
        self.admitted.close();
        self.ways_in.shutdown().await;
        // With its last handle, a port refuses connections. Until then they would wait for nothing.
        self.listeners.clear();
        drop(tokio::time::timeout(patience, self.common.flows.drained()).await);
        // What was written last is still on its way.
        let closing = async {
            for session in self.peers.now().all().flat_map(|(_, peer)| peer.sessions()) {
                if let Link::Tcp(link) = session.link() {
                    link.close("the proxy was stopped").await;
                }
            }
        };
        drop(tokio::time::timeout(CLOSING, closing).await);
        self.common.flows.counts().0
    }

    /// Returns whether programs' connections belong to this process, so that no other can go on with them: those by a TUN
    /// interface with a TCP of its own.
    pub fn keeps_connections(&self) -> bool {
        self.tun.as_ref().is_some_and(TunInterception::keeps_connections)
    }

    /// Returns whether a session may be carried by TCP.
    pub fn uses_tcp(&self) -> bool {
        self.settings.uses_tcp()
    }

    /// Registers the proxy's metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.common.flows.register(metrics);
    }

    /// Returns the proxy's status.
    pub fn status(&self) -> ProxyStatus {
        ProxyStatus { peers: self.peers.clone(), flows: self.common.flows.clone() }
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
}

fn advice(address: SocketAddr, error: &io::Error) -> String {
    bind_advice(address, error).unwrap_or_else(|| error.to_string())
}
