//! An endpoint: a socket, the connections on it, and the receive loop that serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rand::TryRng;
use tokio::sync::{Notify, mpsc};
use whimbrel_net::{EcnCodepoint, RecvPool, UdpSocket};
use whimbrel_proto::crypto::{Identity, PublicKey, Secret};
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::wire::packet::{CLEAR_BIT, destination};
use whimbrel_proto::{
    ConnectConfig, ConnectionId, Datagram, Ecn, EndpointAnswer, EndpointEvent, EndpointStats, Handle,
    ListenConfig, Routed, Ticket, TicketStore, Time, TransportConfig,
};
use zeroize::Zeroizing;

use crate::accepting::Accepting;
use crate::address::{ToSocket, ToUrl};
use crate::agreements::Agreements;
use crate::clock::Clock;
use crate::error::{BindError, ConnectError, TicketsError};
use crate::key_log::{self, KeyLog};
use crate::locals::Paths;
use crate::mocket::Mocket;
use crate::recording;
use crate::resolve::resolve;
use crate::roam::Networks;
use crate::serving::{Company, Lane, Serving};
use crate::shared::{Shared, lock};

/// The configuration of an endpoint. Each field has a builder method of the same name.
///
/// ```
/// use whimbrel::{Config, Paths, TransportConfig};
///
/// let transport = TransportConfig::default().max_paths(2);
/// let config = Config::default().transport(transport).paths(Paths::Auto).protocol("chat/1".into());
/// # let _ = config;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The key pair of this endpoint. Default: a new one, made for this process only.
    pub identity: Identity,
    /// The settings of connections.
    pub transport: TransportConfig,
    /// Whether to accept connections, how, and from which keys. Default None: the endpoint only connects.
    pub listen: Option<ListenConfig>,
    /// The application protocol named when connecting. Default: none.
    pub protocol: Bytes,
    /// A pre-shared key that both ends need in addition to their key pairs (Noise `psk2`). It applies when
    /// connecting, and when accepting unless `listen` sets another. A peer without the same key gets no answer. Turns
    /// early data off. Default: none.
    pub psk: Option<Secret>,
    /// The maximum number of connections accepted by the endpoint but not yet by the application. Further ones are
    /// aborted. Default 1,024.
    pub backlog: usize,
    /// The networks of this host to use. Default: `Auto`, all of them as they come and go.
    pub paths: Paths,
    /// A salt from which the reset tokens of this endpoint are derived. Keep 32 random bytes across restarts: peers
    /// then notice a restart at the same address at once. Default None: a new salt each time. Peers then notice a
    /// restart by silence, or when they dial the session again.
    ///
    /// Two endpoints of one identity must not share a salt while both run, so each process of a fleet needs its own.
    /// Otherwise each would answer for the other's connections, and an attacker who has seen one of their packets
    /// could end them.
    pub reset_salt: Option<[u8; 32]>,
    /// A file to which the keys of connections are appended, for a packet dissector. Anyone with this file can read
    /// the connections. Default: the file named by the environment variable WHIMBREL_KEYLOGFILE, or none.
    pub key_log: Option<PathBuf>,
    /// A folder in which each connection is recorded in its own file, in the qlog format, which viewers such as qvis
    /// show. Records packets, losses, round trips, congestion control and paths, but no payload and no keys. Default:
    /// the folder named by the environment variable WHIMBREL_QLOG_DIR, or none.
    pub qlog_dir: Option<PathBuf>,
}

whimbrel_proto::setters!(Config {
    identity: Identity,
    transport: TransportConfig,
    listen: Option<ListenConfig>,
    protocol: Bytes,
    psk: Option<Secret>,
    backlog: usize,
    paths: Paths,
    reset_salt: Option<[u8; 32]>,
    key_log: Option<PathBuf>,
    qlog_dir: Option<PathBuf>,
});

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets are left out.
        f.debug_struct("Config")
            .field("identity", &self.identity.public().to_string())
            .field("listens", &self.listen.is_some())
            .field("protocol", &self.protocol)
            .field("paths", &self.paths)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            identity: new_identity(),
            transport: TransportConfig::default(),
            listen: None,
            protocol: Bytes::new(),
            psk: None,
            backlog: 1024,
            paths: Paths::default(),
            reset_salt: None,
            key_log: key_log::from_environment(),
            qlog_dir: recording::from_environment(),
        }
    }
}

impl Config {
    /// A configuration that accepts connections from any key, as `identity`.
    pub fn listen_as(identity: Identity) -> Self {
        Self { identity, listen: Some(ListenConfig::default()), ..Self::default() }
    }

    /// Accepts connections from these keys only.
    ///
    /// ```
    /// use whimbrel::{Config, PublicKey, new_identity};
    ///
    /// let friend: PublicKey = "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo".parse()?;
    /// let config = Config::listen_as(new_identity()).allow([friend]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allow(mut self, keys: impl IntoIterator<Item = PublicKey>) -> Self {
        self.listen.get_or_insert_default().allow = Some(keys.into_iter().collect::<BTreeSet<_>>());
        self
    }

    /// Accepts connections, and sessions that come back, only if `admit` returns true. `admit` is called with the key
    /// that the client has proven and the address it came from, before any state is kept for the client. It is not
    /// called for a key outside the list of allowed keys. A refused client gets no answer, as if nothing listened.
    ///
    /// `admit` runs during every handshake while the endpoint is locked. It must be quick and must not call the
    /// endpoint.
    ///
    /// ```
    /// use std::collections::BTreeSet;
    /// use std::sync::{Arc, Mutex};
    /// use whimbrel::{Config, PublicKey, new_identity};
    ///
    /// // Keys that are banned while the endpoint runs.
    /// let banned = Arc::new(Mutex::new(BTreeSet::<PublicKey>::new()));
    /// let list = Arc::clone(&banned);
    /// let config = Config::listen_as(new_identity())
    ///     .admit(move |key, from| from.ip().is_ipv4() && list.lock().is_ok_and(|list| !list.contains(key)));
    /// ```
    pub fn admit(mut self, admit: impl Fn(&PublicKey, SocketAddr) -> bool + Send + Sync + 'static) -> Self {
        self.listen.get_or_insert_default().admit = Some(Arc::new(admit));
        self
    }
}

/// Makes a new key pair from the system's random number generator.
///
/// ```
/// use whimbrel::{Identity, new_identity};
///
/// let identity = new_identity();
/// let kept: [u8; 32] = *identity.secret();
/// assert_eq!(Identity::from_secret(kept).public(), identity.public());
/// ```
pub fn new_identity() -> Identity {
    Identity::from_secret(*Zeroizing::new(random_bytes()))
}

/// The time since the Unix epoch. Zero if the clock is set before it.
pub(crate) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

pub(crate) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    // Without randomness nothing is secure, so there is no sensible way to go on.
    #[allow(clippy::expect_used, reason = "a system without randomness cannot run this")]
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).expect("the system gives randomness");
    bytes
}

/// A UDP socket and the connections on it. Cheap to clone. Connections go on after the last clone is dropped.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) shared: Arc<EndpointShared>,
    accepting: Arc<Accepting>,
    open: Arc<OpenGuard>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("public_key", &self.public_key().to_string())
            .field("local_addr", &self.local_addr().ok())
            .finish_non_exhaustive()
    }
}

pub(crate) struct EndpointShared {
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) networks: Networks,
    pub(crate) clock: Clock,
    pub(crate) key_log: Option<KeyLog>,
    pub(crate) tickets: Mutex<TicketStore>,
    pub(crate) proto: Mutex<whimbrel_proto::Endpoint>,
    pub(crate) agreements: Agreements,
    pub(crate) connections: Mutex<BTreeMap<Handle, Arc<Shared>>>,
    pub(crate) config: Config,
    pub(crate) company: Company,
    /// Whether the endpoint is being closed and refuses connections.
    refusing: AtomicBool,
    /// Notified when a connection is forgotten, and when the last [`Endpoint`] is dropped.
    changed: Notify,
    closed: OnceLock<()>,
}

/// Marks the endpoint as closed when its last clone is dropped.
struct OpenGuard(Arc<EndpointShared>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.closed.get_or_init(|| ());
        self.0.changed.notify_waiters();
        self.0.changed.notify_one();
    }
}

impl Endpoint {
    /// Binds an endpoint to `address`, or takes over a socket that is already bound. `[::]:4433` means all addresses
    /// of both families; port 0 means any port.
    ///
    /// # Errors
    /// The address does not parse, or the system refuses it. Also if the key log or the folder for recordings cannot
    /// be made.
    #[allow(clippy::unused_async, reason = "must be called within the runtime that will drive it")]
    pub async fn bind(config: Config, address: impl ToSocket) -> Result<Self, BindError> {
        let socket = address.open()?;
        let mut config = config;
        let key_log = match &config.key_log {
            Some(path) => {
                Some(KeyLog::open(path).map_err(|error| BindError::KeyLog { path: path.clone(), error })?)
            }
            None => None,
        };
        config.transport.key_log = key_log.is_some();
        if let Some(folder) = &config.qlog_dir {
            recording::prepare(folder).map_err(|error| BindError::QlogDir { path: folder.clone(), error })?;
        }
        config.transport.qlog = config.qlog_dir.is_some();
        if let Some(listen) = &mut config.listen {
            listen.acceptor.psk = listen.acceptor.psk.take().or_else(|| config.psk.clone());
        }
        if config.paths == Paths::Single {
            config.transport.max_paths = 1;
        }
        let mut proto = whimbrel_proto::Endpoint::new(
            config.identity.clone(),
            config.listen.clone(),
            config.transport.clone(),
            0,
            random_bytes(),
            aes_in_hardware(),
        );
        if let Some(salt) = &config.reset_salt {
            proto.set_reset_salt(salt);
        }
        if config.psk.is_some() {
            proto.set_psk(config.psk.clone());
        }
        let (accept, accepting) = mpsc::channel(config.backlog.max(1));
        let shared = Arc::new(EndpointShared {
            socket: Arc::new(socket),
            networks: Networks::default(),
            clock: Clock::new(),
            key_log,
            tickets: Mutex::new(TicketStore::default()),
            proto: Mutex::new(proto),
            agreements: Agreements::new(),
            connections: Mutex::new(BTreeMap::new()),
            config,
            company: Company::default(),
            refusing: AtomicBool::new(false),
            changed: Notify::new(),
            closed: OnceLock::new(),
        });
        tokio::spawn(receive(Arc::clone(&shared), Arc::clone(&shared.socket), Some(accept)));
        let open = Arc::new(OpenGuard(Arc::clone(&shared)));
        Ok(Self { shared, accepting: Arc::new(Accepting::new(accepting)), open })
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Errors
    /// The system cannot tell the address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.shared.socket.local_addr()
    }

    /// Returns the public key that identifies this endpoint.
    pub fn public_key(&self) -> PublicKey {
        lock(&self.shared.proto).public_key()
    }

    /// Returns counters of the datagrams that led to no connection.
    pub fn stats(&self) -> EndpointStats {
        lock(&self.shared.proto).stats()
    }

    /// Connects to `whimbrel://KEY@host:port` and waits for the handshake. If the host has several addresses, another
    /// one is tried every 250 ms until one answers (RFC 8305).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use whimbrel::{Config, Endpoint};
    ///
    /// let endpoint = Endpoint::bind(Config::default(), "[::]:0").await?;
    /// let mocket = endpoint
    ///     .connect("whimbrel://hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo@example.org:4433")
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The URL is invalid, the name does not resolve, no local address leads there, the endpoint is closed, or the
    /// handshake fails. Each error says what to do.
    ///
    /// # Cancel safety
    /// Cancel-safe: dropping the future abandons the attempt.
    pub async fn connect(&self, url: impl ToUrl) -> Result<Mocket, ConnectError> {
        let mocket = self.begin_connect(url).await?;
        mocket.established().await?;
        Ok(mocket)
    }

    /// Connects like [`Endpoint::connect`], but without waiting for the handshake. Data sent meanwhile travels with
    /// the third packet of the handshake.
    ///
    /// # Errors
    /// The URL is invalid, the name does not resolve, no local address leads there, or the endpoint is closed.
    pub async fn begin_connect(&self, url: impl ToUrl) -> Result<Mocket, ConnectError> {
        let url = url.to_url()?;
        let key = url.key.ok_or(ConnectError::KeyMissing)?;
        let remotes = resolve(&url, self.local_addr().is_ok_and(|local| local.is_ipv6())).await?;
        self.open(&remotes, ServerKey::Known(key))
    }

    /// Connects to a server whose URL names no key. Insists on the key in `remembered`, or else trusts any key that
    /// the server shows (trust on first use). A key in the URL takes precedence over both. Compare or keep
    /// [`Mocket::peer_key`]. The server must be configured to show its key.
    ///
    /// # Errors
    /// The same as for [`Endpoint::connect`].
    pub async fn connect_trusting(
        &self,
        url: impl ToUrl,
        remembered: Option<PublicKey>,
    ) -> Result<Mocket, ConnectError> {
        let url = url.to_url()?;
        let remotes = resolve(&url, self.local_addr().is_ok_and(|local| local.is_ipv6())).await?;
        let key = match (url.key, remembered) {
            (Some(key), _) => ServerKey::Known(key),
            (None, Some(key)) => ServerKey::Remembered(key),
            (None, None) => ServerKey::Ask,
        };
        let mocket = self.open(&remotes, key)?;
        mocket.established().await?;
        Ok(mocket)
    }

    /// Exports the tickets received from servers as bytes. Keep them in a file, as secret as the private key: the next
    /// run of the program can then send data with its first packet, so that it arrives after half a round trip. Each
    /// ticket is good for one connection.
    pub fn export_tickets(&self) -> Vec<u8> {
        lock(&self.shared.tickets).export(self.shared.clock.now(), time_of_day())
    }

    /// Imports tickets that [`Endpoint::export_tickets`] returned, and returns how many are still valid. They only
    /// work for the identity that exported them. With another identity, connections begin as if there were no
    /// tickets.
    ///
    /// # Errors
    /// The bytes are no exported tickets.
    pub fn import_tickets(&self, exported: &[u8]) -> Result<usize, TicketsError> {
        let now = self.shared.clock.now();
        lock(&self.shared.tickets).import(now, time_of_day(), exported).map_err(|_| TicketsError)
    }

    /// Begins a connection to one of these addresses. The list must not be empty.
    fn open(&self, remotes: &[SocketAddr], server_key: ServerKey) -> Result<Mocket, ConnectError> {
        let shared = &self.shared;
        if shared.refusing.load(Ordering::Acquire) {
            return Err(ConnectError::EndpointClosed);
        }
        let (mut alternatives, locals) = shared.locals_of_any(remotes)?;
        let remote = alternatives.remove(0);
        let now = shared.clock.now();
        let ticket = match server_key {
            ServerKey::Known(key) | ServerKey::Remembered(key) => lock(&shared.tickets).take(now, &key),
            ServerKey::Ask => None,
        };
        let config = ConnectConfig {
            server_key,
            protocol: shared.config.protocol.clone(),
            psk: shared.config.psk.clone(),
            ticket,
            alternatives,
            transport: shared.config.transport.clone(),
        };
        let (handle, connection) = lock(&shared.proto).connect(now, remote, config);
        let connection = Shared::new(handle, connection, locals, Arc::clone(shared));
        lock(&shared.connections).insert(handle, Arc::clone(&connection));
        connection.drive();
        Ok(Mocket::new(connection))
    }

    /// Waits for the next connection from a peer. Returns None once the endpoint no longer receives. Cancel-safe.
    ///
    /// ```no_run
    /// # async fn example(endpoint: whimbrel::Endpoint) {
    /// while let Some(mocket) = endpoint.accept().await {
    ///     tokio::spawn(async move {
    ///         while let Ok(message) = mocket.recv().await {
    ///             println!("{} bytes from {:?}", message.payload.len(), mocket.peer_key());
    ///         }
    ///     });
    /// }
    /// # }
    /// ```
    pub async fn accept(&self) -> Option<Mocket> {
        self.accepting.next().await
    }

    /// Polls for the next connection, like [`Endpoint::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Option<Mocket>> {
        self.accepting.poll_next(cx)
    }

    /// Returns the next connection from a peer, if one is waiting.
    pub fn try_accept(&self) -> Option<Mocket> {
        self.accepting.try_next()
    }

    /// Closes every connection gracefully and waits until all have ended, for at most `patience`. Aborts the rest and
    /// returns how many those were. From the first poll on, no connection is accepted, [`Endpoint::accept`] ends, and
    /// connecting fails. The socket closes with the last handle.
    pub async fn close(&self, code: u64, text: &str, patience: Duration) -> usize {
        self.shared.refusing.store(true, Ordering::Release);
        self.accepting.end();
        for connection in self.shared.all() {
            Mocket::new(connection).begin_close(code, text);
        }
        // Connections that have ended stay for a while to answer a peer that missed the close.
        let ended = async {
            for connection in self.shared.all() {
                Mocket::new(connection).closed().await;
            }
        };
        if tokio::time::timeout(patience, ended).await.is_ok() {
            return 0;
        }
        let left: Vec<_> =
            self.shared.all().into_iter().filter(|connection| connection.lock().closed.is_none()).collect();
        for connection in &left {
            Mocket::new(Arc::clone(connection)).abort(code, text);
        }
        left.len()
    }

    /// Waits until every connection has ended. Call it before the program ends, so that graceful closes get through.
    pub async fn wait_idle(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if lock(&self.shared.connections).is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Returns a handle on every session of which the application holds a handle, for inspection. Keeping one keeps
    /// its session open.
    pub fn mockets(&self) -> Vec<Mocket> {
        let held = |shared: &Arc<Shared>| shared.mockets.load(Ordering::Acquire) > 0;
        self.shared.all().into_iter().filter(held).map(Mocket::new).collect()
    }

    /// Aborts every connection with this code and text.
    pub fn abort_all(&self, code: u64, text: &str) {
        for connection in self.shared.all() {
            connection.lock().connection.abort(self.shared.clock.now(), code, text);
            connection.drive();
        }
        debug_assert!(Arc::strong_count(&self.open) > 0);
    }
}

impl EndpointShared {
    pub(crate) fn handle_event(&self, handle: Handle, event: EndpointEvent) -> Option<EndpointAnswer> {
        let answer = lock(&self.proto).handle_event(self.clock.now(), handle, event);
        if event == EndpointEvent::Drained {
            self.forget(handle);
        }
        answer
    }

    /// Keeps a ticket for the next connection to its server.
    pub(crate) fn keep_ticket(&self, ticket: Ticket) {
        lock(&self.tickets).insert(ticket);
    }

    pub(crate) fn forget(&self, handle: Handle) {
        lock(&self.proto).forget(handle);
        lock(&self.connections).remove(&handle);
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Returns all connections.
    pub(crate) fn all(&self) -> Vec<Arc<Shared>> {
        lock(&self.connections).values().cloned().collect()
    }

    pub(crate) fn find(&self, handle: Handle) -> Option<Arc<Shared>> {
        lock(&self.connections).get(&handle).cloned()
    }

    fn is_over(&self) -> bool {
        self.closed.get().is_some() && lock(&self.connections).is_empty()
    }
}

/// The number of buffers filled by one receive call. Each may hold several coalesced datagrams.
const BUFFERS: usize = 8;

/// How long a receive loop whose buffers fill up each time goes on before other tasks run.
const BUSY: Duration = Duration::from_millis(1);

/// The receive loop of a socket. It runs until the endpoint and its connections are gone. Without `accept`, new
/// connections are refused.
pub(crate) async fn receive(
    shared: Arc<EndpointShared>,
    socket: Arc<UdpSocket>,
    accept: Option<mpsc::Sender<Mocket>>,
) {
    let mut batch = RecvPool::new(BUFFERS);
    let mut serving = Serving::default();
    let (mut reply, mut accepted) = (Vec::new(), Vec::new());
    let (mut is_more, mut busy_since) = (false, shared.clock.now());
    loop {
        let others_wait = is_more && shared.clock.now().since(busy_since) >= BUSY;
        if others_wait || !serving.is_idle() {
            // Lets other tasks run, then reads without blocking what has arrived meanwhile.
            tokio::task::yield_now().await;
            if batch.try_fill(&socket).is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                break;
            }
        } else {
            tokio::select! {
                filled = batch.fill_from(&socket) => {
                    if filled.is_err() {
                        // Errors of single datagrams are not reported here, so the socket itself has failed.
                        break;
                    }
                }
                () = shared.changed.notified() => {
                    if shared.is_over() {
                        break;
                    }
                    continue;
                }
            }
        }
        let now = shared.clock.now();
        let door = Door { socket: &socket, accept: accept.as_ref() };
        is_more = batch.is_full();
        if !is_more || others_wait {
            busy_since = now;
        }
        route_batch(&shared, now, door, &mut batch, &mut reply, &mut serving, &mut accepted);
        hand_over(&shared, &mut accepted, accept.as_ref());
        serving.serve_fresh(&shared);
        serving.serve_next(&shared);
        tokio::task::coop::consume_budget().await;
    }
}

/// The way in for new peers: the socket to answer on, and the channel of accepted connections.
#[derive(Clone, Copy)]
struct Door<'a> {
    socket: &'a Arc<UdpSocket>,
    accept: Option<&'a mpsc::Sender<Mocket>>,
}

/// Sorts the received datagrams by connection. Unknown peers are answered at once.
fn route_batch(
    shared: &Arc<EndpointShared>,
    now: Time,
    door: Door<'_>,
    batch: &mut RecvPool,
    reply: &mut Vec<u8>,
    serving: &mut Serving,
    accepted: &mut Vec<(SocketAddr, Routed)>,
) {
    // The endpoint's lock, taken when first needed. It must not be held while a connection is locked: connections
    // call the endpoint with their own lock held.
    let mut proto = None;
    // Datagrams often come in runs for one connection, so its lane is looked up once for a run.
    let mut last: Option<(ConnectionId, SocketAddr, Lane)> = None;
    batch.drain(|datagram| {
        let datagram = Datagram {
            from: datagram.from,
            to: datagram.to,
            ecn: datagram.ecn.map(from_net_ecn),
            bytes: datagram.bytes,
        };
        let (from, to, size) = (datagram.from, datagram.to, datagram.bytes.len());
        let id = sealed_for(&datagram.bytes);
        if let Some((last_id, last_from, lane)) = last
            && Some(last_id) == id
            && last_from == from
        {
            serving.push(lane, size, Routed::Connection(lane.handle(), datagram));
            return;
        }
        reply.clear();
        let found =
            proto.get_or_insert_with(|| lock(&shared.proto)).handle_datagram_deferring(now, datagram, reply);
        if !matches!(found, Routed::Connection(..)) {
            // A datagram for no connection, even a forged one, may take as long as a handshake. The lock is released
            // for that.
            proto = None;
        }
        // An agreement that is not left to the other thread runs now: datagrams right behind the PING belong to the
        // connection that it begins.
        let found = match found {
            Routed::Agreeing(agreeing) => {
                match Agreements::leave(shared, now, door.socket, door.accept, *agreeing) {
                    Some(agreeing) => {
                        let agreed = agreeing.run();
                        lock(&shared.proto).handle_agreed(now, agreed, reply)
                    }
                    None => Routed::Nothing,
                }
            }
            found => found,
        };
        if let Some(handle) = found.handle() {
            let lane = serving.lane(handle, from);
            last = id.map(|id| (id, from, lane)).filter(|_| matches!(found, Routed::Connection(..)));
            serving.push(lane, size, found);
            return;
        }
        match found {
            Routed::Reply => reply_to(door.socket, from, to, reply),
            found => accepted.push((from, found)),
        }
    });
}

/// Returns the connection ID that a sealed packet is addressed to. None for a packet in the clear.
fn sealed_for(packet: &[u8]) -> Option<ConnectionId> {
    destination(packet).filter(|(flags, _)| flags & CLEAR_BIT == 0).map(|(_, id)| id)
}

/// Sends a reply to an unknown peer, if there is one. A lost reply is not repeated: the peer asks again.
pub(crate) fn reply_to(socket: &UdpSocket, to: SocketAddr, source: Option<IpAddr>, reply: &[u8]) {
    if reply.is_empty() {
        return;
    }
    let transmit = whimbrel_net::Transmit {
        destination: to,
        ecn: None,
        contents: reply,
        segment_size: None,
        src_ip: source,
    };
    socket.try_send(&transmit).ok();
}

/// Registers accepted connections and offers them to the application.
pub(crate) fn hand_over(
    shared: &Arc<EndpointShared>,
    accepted: &mut Vec<(SocketAddr, Routed)>,
    accept: Option<&mpsc::Sender<Mocket>>,
) {
    for (from, routed) in accepted.drain(..) {
        let Routed::Accepted(handle, connection) = routed else { continue };
        let locals = shared.locals_of_server(from);
        let connection = Shared::new(handle, *connection, locals, Arc::clone(shared));
        lock(&shared.connections).insert(handle, Arc::clone(&connection));
        shared.recheck_lists(shared.clock.now(), &connection);
        let mocket = Mocket::new(Arc::clone(&connection));
        if shared.refusing.load(Ordering::Acquire) {
            mocket.abort(0, "the endpoint is closed");
            continue;
        }
        if shared.config.listen.as_ref().is_some_and(|listen| listen.acceptor.psk.is_some()) {
            // Only a packet sealed with the final keys proves that the client holds the PSK, too. Nothing can be
            // received before that.
            let accept = accept.cloned();
            tokio::spawn(async move {
                if mocket.proven().await.is_ok() {
                    offer(accept.as_ref(), mocket);
                }
            });
        } else {
            offer(accept, mocket);
        }
        connection.drive();
    }
}

/// Hands an accepted connection to the application. Aborts it if the backlog is full.
fn offer(accept: Option<&mpsc::Sender<Mocket>>, mocket: Mocket) {
    let refused = match accept {
        Some(accept) => accept.try_send(mocket).err().map(mpsc::error::TrySendError::into_inner),
        None => Some(mocket),
    };
    if let Some(refused) = refused {
        refused.abort(0, "the listener does not keep up");
    }
}

pub(crate) fn to_net_ecn(ecn: Ecn) -> EcnCodepoint {
    match ecn {
        Ecn::Ect0 => EcnCodepoint::Ect0,
        Ecn::Ect1 => EcnCodepoint::Ect1,
        Ecn::Ce => EcnCodepoint::Ce,
    }
}

fn from_net_ecn(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}

fn aes_in_hardware() -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[allow(unreachable_code, reason = "where neither is known")]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_several_addresses_one_that_answers_is_taken() {
        let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
        let live = server.local_addr().unwrap();
        let dead = ["[::1]:0", "127.0.0.1:0"].map(std::net::UdpSocket::bind);
        // On a host without IPv6 there is one dead address less.
        let dead: Vec<SocketAddr> =
            dead.into_iter().flatten().map(|socket| socket.local_addr().unwrap()).collect();
        let ipv6 = dead.len() == 2;
        let client =
            Endpoint::bind(Config::default(), if ipv6 { "[::]:0" } else { "0.0.0.0:0" }).await.unwrap();
        for remotes in [vec![live], [&dead[..], &[live]].concat(), [&[live], &dead[..]].concat()] {
            let near = client.open(&remotes, ServerKey::Known(server.public_key())).unwrap();
            near.send("early").await.unwrap();
            near.established().await.unwrap();
            assert_eq!(
                (near.peer_addr().ip().to_canonical(), near.peer_addr().port()),
                (live.ip(), live.port())
            );
            let far = server.accept().await.unwrap();
            assert_eq!(far.recv().await.unwrap().payload, "early");
            far.send("late").await.unwrap();
            assert_eq!(near.recv().await.unwrap().payload, "late");
            assert_eq!(lock(&server.shared.connections).len(), 1, "the server sees one connection");
            near.close(0, "").await;
            server.wait_idle().await;
        }
    }

    async fn client_by(paths: &[&str]) -> Endpoint {
        let paths = paths.iter().map(|ip| ip.parse::<IpAddr>().unwrap().into()).collect();
        let config = Config::default().paths(Paths::Only(paths));
        Endpoint::bind(config, "0.0.0.0:0").await.unwrap()
    }

    fn mute() -> (std::net::UdpSocket, SocketAddr) {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[tokio::test]
    async fn each_address_is_asked_from_one_that_may_be_used_and_leads_there() {
        let Ok(server) = Endpoint::bind(Config::listen_as(new_identity()), "[::1]:0").await else {
            whimbrel_testing::skipped("this host has no IPv6 loopback");
            return;
        };
        let client = client_by(&["127.0.0.2", "::1"]).await;
        let (_mute, dead) = mute();
        let live = server.local_addr().unwrap();
        let near = client.open(&[dead, live], ServerKey::Known(server.public_key())).unwrap();
        near.established().await.unwrap();
        let far = server.accept().await.unwrap();
        assert!(far.peer_addr().ip().is_loopback() && near.peer_addr() == live);
    }

    #[tokio::test]
    async fn an_address_that_none_leads_to_is_not_asked() {
        let client = client_by(&["127.0.0.2", "2001:db8::77"]).await;
        let (_mute, dead) = mute();
        let ipv6: SocketAddr = "[::1]:9".parse().unwrap();
        let (reached, locals) = client.shared.locals_of_any(&[ipv6, dead]).unwrap();
        assert_eq!(reached, [dead], "2001:db8::77 is not there");
        let locals = locals.unwrap();
        assert_eq!(locals.socket_for(None, dead).unwrap().address().ip().to_string(), "127.0.0.2");
        assert!(locals.socket_for(None, ipv6).is_none(), "the socket of another network does not lead there");
        assert!(matches!(client.shared.locals_of_any(&[ipv6]), Err(ConnectError::NoPath(_))));
    }
}
