//! An endpoint: a socket and the connections on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use whimbrel_net::UdpSocket;
use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{ConnectConfig, EndpointStats};

use crate::accepting::Accepting;
use crate::address::{Opened, ToSocket, ToUrl};
use crate::clock::time_of_day;
use crate::config::Config;
use crate::endpoint_shared::EndpointShared;
use crate::error::{BindError, ConnectError, TicketsError};
use crate::identity::random_bytes;
use crate::key_log::KeyLog;
use crate::locals::Paths;
use crate::lock::lock;
use crate::mocket::Mocket;
use crate::receive::{Door, receive};
use crate::recording;
use crate::resolve::resolve;
use crate::shared::Shared;

/// The most receive loops of an endpoint.
const MOST_LOOPS: usize = 64;

/// A UDP socket and the connections on it. Cheap to clone. Connections go on after the last clone is dropped.
///
/// The tokio runtime in which it was bound drives it. Keep that runtime until the endpoint is no longer needed. Once
/// the runtime is dropped or shut down, nothing is sent or received any more. The handles then report no error, and
/// their futures never end, in whichever runtime they are awaited.
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

/// Marks the endpoint as closed when its last clone is dropped.
struct OpenGuard(Arc<EndpointShared>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Endpoint {
    /// Binds an endpoint to `address`, or takes over a socket that is already bound. `[::]:4433` means all addresses
    /// of both families; port 0 means any port.
    ///
    /// # Errors
    /// The address does not parse, the system refuses it, or no tokio runtime is running here. Also if the key log or
    /// the folder for recordings cannot be made.
    ///
    /// # Panics
    /// The runtime has I/O or time disabled (`Builder::enable_all` enables both).
    #[allow(clippy::unused_async, reason = "must be called within the runtime that will drive it")]
    pub async fn bind(config: Config, address: impl ToSocket) -> Result<Self, BindError> {
        // Opening a socket outside of a runtime would panic.
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(BindError::NoRuntime);
        }
        let Opened { socket, is_ours } = address.open()?;
        let sockets = open_loops(socket, is_ours, &config)?;
        if let Some(mark) = config.mark {
            sockets.iter().try_for_each(|socket| socket.set_mark(mark)).map_err(BindError::Mark)?;
        }
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
        // The configuration is kept for as long as the endpoint, which needs the salt no more.
        if let Some(salt) = config.reset_salt.take() {
            proto.set_reset_salt(&salt);
        }
        if config.psk.is_some() {
            proto.set_psk(config.psk.clone());
        }
        let (accept, accepting) = mpsc::channel(config.backlog.max(1));
        let shared = Arc::new(EndpointShared::new(config, proto, sockets, key_log));
        for (home, socket) in shared.sockets().enumerate() {
            let door = Door { socket: Arc::clone(socket), home, accept: Some(accept.clone()) };
            tokio::spawn(receive(Arc::clone(&shared), door));
        }
        let open = Arc::new(OpenGuard(Arc::clone(&shared)));
        let accepting = Arc::new(Accepting::new(accepting));
        if shared.config.listen.is_none() {
            accepting.end();
        }
        Ok(Self { shared, accepting, open })
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Errors
    /// The system cannot tell the address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.shared.socket().local_addr()
    }

    /// Returns the public key that identifies this endpoint.
    pub fn public_key(&self) -> PublicKey {
        lock(&self.shared.proto).public_key()
    }

    /// Returns counters of the datagrams that led to no connection.
    pub fn stats(&self) -> EndpointStats {
        lock(&self.shared.proto).stats()
    }

    /// Returns how many datagrams each receive loop has received ([`Config::receive_loops`]).
    pub fn received_by_loop(&self) -> Vec<u64> {
        self.shared.received()
    }

    /// Returns how many key agreements of connecting clients were made outside the receive loops. Where there is more
    /// than one core, a loop makes a few at a time itself and leaves the rest of a flood to another thread.
    pub fn agreements_off_loop(&self) -> u64 {
        self.shared.agreements.made()
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
    /// # Errors
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
        let remotes = resolve(&url, self.bound_to()).await?;
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
        let remotes = resolve(&url, self.bound_to()).await?;
        let key = match (url.key, remembered) {
            (Some(key), _) => ServerKey::Known(key),
            (None, Some(key)) => ServerKey::Remembered(key),
            (None, None) => ServerKey::Ask,
        };
        let mocket = self.open(&remotes, key)?;
        mocket.established().await?;
        Ok(mocket)
    }

    /// Exports the tickets received from servers as bytes. Keep them in a file, as secret as the private key. The next
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

    /// Returns the address from which peers are reached. None: paths have sockets of their own, of either family.
    fn bound_to(&self) -> Option<SocketAddr> {
        let local = self.local_addr().ok()?;
        let by_paths = local.is_ipv6() && matches!(self.shared.config.paths, Paths::Only(_));
        (!by_paths).then_some(local)
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
        let connection = Shared::new(handle, connection, locals, 0, Arc::clone(shared));
        lock(&shared.connections).insert(handle, Arc::clone(&connection));
        connection.drive();
        Ok(Mocket::new(connection))
    }

    /// Waits for the next connection from a peer. Returns None once the endpoint no longer receives, and at once if it
    /// does not listen ([`Config::listen`]). Cancel-safe.
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

    /// Returns the next connection from a peer, if one is waiting. An endpoint that does not listen has none.
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
        let mut changed = self.shared.changed.subscribe();
        // An error means that the endpoint is gone, which this handle prevents.
        while !lock(&self.shared.connections).is_empty() && changed.changed().await.is_ok() {}
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

/// Opens the sockets of an endpoint, one for each receive loop.
fn open_loops(first: UdpSocket, is_ours: bool, config: &Config) -> Result<Vec<Arc<UdpSocket>>, BindError> {
    // Nothing is known of what a socket that was handed over is for: further ones might lack an option that it has.
    let may_share = is_ours && config.listen.is_some();
    let loops = config.receive_loops.unwrap_or(if may_share { workers() } else { 1 }).clamp(1, MOST_LOOPS);
    let beside = match first.open_beside(loops - 1) {
        Ok(beside) => beside,
        Err(_) if config.receive_loops.is_none() => Vec::new(),
        Err(error) => return Err(BindError::ReceiveLoops { loops, error }),
    };
    Ok(std::iter::once(first).chain(beside).map(Arc::new).collect())
}

/// Returns the number of threads that run tasks.
fn workers() -> usize {
    tokio::runtime::Handle::current().metrics().num_workers()
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
    use std::net::IpAddr;

    use super::*;
    use crate::identity::new_identity;

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
