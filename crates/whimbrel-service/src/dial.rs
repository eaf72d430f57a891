//! Connecting: which key to trust, which key to use, and where to send from.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use whimbrel::{CloseReason, Config, ConnectError, Endpoint, Mocket, Paths, PublicKey, Url};

use crate::bind::{BindFailed, bind, bind_both_families};
use crate::key::{
    KeyFileError, KnownPeers, KnownPeersError, NoPlace, PskError, default_known_peers_file, own_or_temporary,
    read_psk,
};
use crate::notice::Notice;

/// The peer to connect to, and the identity to use. Everything else is in [`config`](field@DialOptions::config).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DialOptions {
    /// The peer. A URL without a key needs a known peer, or
    /// [`trust_on_first_use`](field@DialOptions::trust_on_first_use).
    pub url: Url,
    /// The key file, by which the peer recognises us. Default: [`default_key_file`](crate::key::default_key_file) if
    /// that file exists, otherwise a key for this process only.
    pub key: Option<PathBuf>,
    /// The file with a pre-shared key. Default: see [`read_psk`].
    pub psk: Option<PathBuf>,
    /// Whether to trust the key that an unknown peer shows, and to remember it. The peer must be configured to show
    /// it. Default false.
    pub trust_on_first_use: bool,
    /// The file of known peers. Default: [`default_known_peers_file`].
    pub known_peers: Option<PathBuf>,
    /// The local address and port to send from. Default: any.
    pub bind: Option<SocketAddr>,
    /// How long the peer may take to answer and to complete the handshake. Looking up the host's address may take
    /// twice as long. Default 5 s.
    pub wait: Duration,
    /// The configuration of the endpoint. Its `identity`, `psk` and `transport.handshake_timeout` are overwritten.
    pub config: Config,
}

impl DialOptions {
    /// Options to connect to this peer with this configuration and the defaults otherwise.
    pub fn new(url: Url, config: Config) -> Self {
        Self {
            url,
            key: None,
            psk: None,
            trust_on_first_use: false,
            known_peers: None,
            bind: None,
            wait: Duration::from_secs(5),
            config,
        }
    }

    /// Sets [`key`](field@DialOptions::key).
    #[must_use]
    pub fn key(mut self, file: impl Into<PathBuf>) -> Self {
        self.key = Some(file.into());
        self
    }

    /// Sets [`psk`](field@DialOptions::psk).
    #[must_use]
    pub fn psk(mut self, file: impl Into<PathBuf>) -> Self {
        self.psk = Some(file.into());
        self
    }

    /// Sets [`trust_on_first_use`](field@DialOptions::trust_on_first_use).
    #[must_use]
    pub fn trust_on_first_use(mut self) -> Self {
        self.trust_on_first_use = true;
        self
    }

    /// Sets [`known_peers`](field@DialOptions::known_peers).
    #[must_use]
    pub fn known_peers(mut self, file: impl Into<PathBuf>) -> Self {
        self.known_peers = Some(file.into());
        self
    }

    /// Sets [`bind`](field@DialOptions::bind).
    #[must_use]
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.bind = Some(address);
        self
    }

    /// Sets [`wait`](field@DialOptions::wait).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Decides which key to trust and opens the socket. `tell` is called with what people should know.
    ///
    /// # Errors
    /// The options contradict each other, the peer is not known, the keys or the known peers cannot be used, or the
    /// system refuses the address.
    pub async fn prepare(self, tell: impl Fn(Notice)) -> Result<Dial, DialError> {
        if self.bind.is_some() && matches!(self.config.paths, Paths::Only(_)) {
            return Err(DialError::BindAndPaths);
        }
        let trust = self.trust(tell)?;
        let (identity, temporary) = own_or_temporary(self.key.as_deref())?;
        let mut config = self.config.identity(identity).psk(read_psk(self.psk.as_deref())?);
        config.transport.handshake_timeout = self.wait;
        let is_ipv4 = self.url.host.parse::<Ipv4Addr>().is_ok();
        let endpoint = match self.bind {
            Some(address) => bind(config, address).await?,
            None if is_ipv4 => bind(config, (Ipv4Addr::UNSPECIFIED, 0).into()).await?,
            None => bind_both_families(config, 0).await?,
        };
        Ok(Dial { endpoint, url: self.url, trust, wait: self.wait, temporary })
    }

    fn trust(&self, tell: impl Fn(Notice)) -> Result<Trust, DialError> {
        if self.url.key.is_some() {
            return Ok(Trust::Key);
        }
        let path = self.known_peers.clone().map_or_else(default_known_peers_file, Ok)?;
        let peers = KnownPeers::load(&path, tell)?;
        match peers.key_of(&self.url) {
            Some(key) => Ok(Trust::Remembered(key, peers)),
            None if self.trust_on_first_use => Ok(Trust::FirstUse(peers)),
            None => Err(DialError::Stranger(self.url.clone())),
        }
    }
}

/// A connection to make, once it is clear which key to trust.
#[derive(Debug)]
pub struct Dial {
    endpoint: Endpoint,
    url: Url,
    trust: Trust,
    wait: Duration,
    /// Whether our key is for this process only.
    temporary: bool,
}

#[derive(Debug)]
enum Trust {
    /// The peer must have the key in the URL.
    Key,
    /// The peer must have the key that it showed before.
    Remembered(PublicKey, KnownPeers),
    /// Any key that the peer shows is trusted and remembered.
    FirstUse(KnownPeers),
}

impl Dial {
    /// Returns the endpoint with the open socket.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Connects. With a key in the URL it does not wait for the handshake, so that data sent at once travels with it.
    /// [`Dial::established`] waits for it. A peer that is trusted on first use is remembered, and `tell` is called
    /// with [`Notice::Trusted`].
    ///
    /// # Errors
    /// The host's address is not found, no local address leads there, there was no answer, or the answer was not
    /// from the trusted peer.
    pub async fn connect(&mut self, tell: impl Fn(Notice)) -> Result<Mocket, DialError> {
        // The handshake has a time limit of its own; the address lookup has none.
        let (limit, host) = (self.wait * 2, self.url.host.clone());
        let connected = tokio::time::timeout(limit, self.begin(tell)).await;
        connected.unwrap_or(Err(DialError::LookupTimedOut(host)))
    }

    /// Waits for the handshake of a connection that was begun.
    ///
    /// # Errors
    /// There was no answer, or not from the trusted peer.
    pub async fn established(&self, mocket: &Mocket) -> Result<(), DialError> {
        mocket.established().await.map_err(|reason| match reason {
            CloseReason::HandshakeTimedOut => {
                DialError::NoAnswer(self.no_answer(mocket.peer_addr().to_string()))
            }
            other => DialError::Connect(other.into()),
        })
    }

    /// Returns what to tell people if there is no answer at this address.
    pub fn no_answer(&self, address: impl Into<String>) -> NoAnswer {
        NoAnswer {
            address: address.into(),
            wait: self.wait,
            own: self.endpoint.public_key(),
            temporary: self.temporary,
        }
    }

    async fn begin(&mut self, tell: impl Fn(Notice)) -> Result<Mocket, DialError> {
        let url = &self.url;
        let nobody = self.no_answer(format!("{}:{}", url.host, url.port));
        match &mut self.trust {
            Trust::Key => Ok(self.endpoint.begin_connect(url).await?),
            Trust::Remembered(key, peers) => {
                self.endpoint.connect_trusting(url, Some(*key)).await.map_err(|error| match error {
                    ConnectError::Closed(CloseReason::HandshakeTimedOut) => DialError::NoAnswer(nobody),
                    ConnectError::Closed(CloseReason::Handshake(why)) => {
                        DialError::OtherKey { key: *key, why, path: peers.path().to_owned() }
                    }
                    other => other.into(),
                })
            }
            Trust::FirstUse(peers) => {
                let mocket =
                    self.endpoint.connect_trusting(url, None).await.map_err(|error| match error {
                        ConnectError::Closed(CloseReason::HandshakeTimedOut) => {
                            DialError::NothingShown(nobody)
                        }
                        other => other.into(),
                    })?;
                let key = mocket.peer_key().ok_or(DialError::NoKey)?;
                peers.remember(url, key)?;
                tell(Notice::Trusted { url: url.clone(), key, path: peers.path().to_owned() });
                Ok(mocket)
            }
        }
    }
}

/// Nobody answered: which address was asked, with which key, and what to check. A listener that refuses a stranger
/// stays silent, so its text names that too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no answer from {address} within {} s. Check the address and the port, that somebody listens there, and that firewalls let UDP \
     through. Check that the URL has the listener's key, and that both ends have the same pre-shared key, or none. If the listener \
     has --allow, it must list our key, {own}{}",
    .wait.as_secs_f64(),
    if *.temporary { " (for this run only: `whimbrel key new` makes one that stays)" } else { "" }
)]
pub struct NoAnswer {
    /// The host or address, and the port.
    pub address: String,
    /// The time spent waiting for an answer.
    pub wait: Duration,
    /// Our public key.
    pub own: PublicKey,
    /// Whether our key is for this process only.
    pub temporary: bool,
}

/// An error from connecting. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// Both [`DialOptions::bind`](field@DialOptions::bind) and [`Paths::Only`] are given.
    #[error("an address to send from and a list of paths both say where to send from: leave one out")]
    BindAndPaths,
    /// The URL names no key, the peer is not known, and it is not to be trusted on first use.
    #[error(
        "{0} names no key, and the peer is not known: write whimbrel://KEY@{host}:{port}, or trust it on first use",
        host = .0.host,
        port = .0.port
    )]
    Stranger(Url),
    /// Our key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The pre-shared key cannot be used.
    #[error(transparent)]
    Psk(#[from] PskError),
    /// The place of the known peers is not known.
    #[error(transparent)]
    Place(#[from] NoPlace),
    /// The known peers cannot be read or written.
    #[error(transparent)]
    KnownPeers(#[from] KnownPeersError),
    /// The local address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindFailed),
    /// The address of this host was not found in time.
    #[error("cannot find the address of {0} in time: check the name, or write an address")]
    LookupTimedOut(String),
    /// There was no answer.
    #[error(transparent)]
    NoAnswer(NoAnswer),
    /// There was no answer from a peer that has to show its key, to be trusted on first use.
    #[error("{0}. The peer must listen with --show-key")]
    NothingShown(NoAnswer),
    /// The peer does not have the key that it had before.
    #[error(
        "the peer did not prove the key {key} that it had before ({why}): somebody may be impersonating it. If it \
         really has a new key, remove its line from {path}",
        path = .path.display()
    )]
    OtherKey {
        /// The key that it had before.
        key: PublicKey,
        /// The fault in its answer.
        why: String,
        /// The file of known peers.
        path: PathBuf,
    },
    /// The peer completed the handshake without showing a key.
    #[error("the peer has shown no key: write its key into the URL")]
    NoKey,
    /// There is no connection for another reason.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use whimbrel::ListenConfig;

    use super::*;
    use crate::key::save_new_with_folders;
    use crate::{ListenOptions, Listening};

    #[tokio::test]
    async fn a_peer_that_was_trusted_on_first_use_is_known_from_then_on() {
        let folder = std::env::temp_dir().join(format!("whimbrel-dial-{}", std::process::id()));
        let (key, known) = (folder.join("key"), folder.join("known_peers"));
        save_new_with_folders(&key, &whimbrel::new_identity()).unwrap();
        let mut showing = ListenConfig::default();
        showing.acceptor.show_key = true;
        let listen = ListenOptions::new(Config::default().listen(Some(showing))).key(&key);
        let listen = listen.address("127.0.0.1:0".parse().unwrap());
        let Listening { endpoint, url } = listen.listen(|notice| panic!("{notice}")).await.unwrap();
        let dial = || {
            let url = Url { key: None, ..url.clone() };
            DialOptions::new(url, Config::default()).key(&key).known_peers(&known)
        };

        let stranger = dial().prepare(drop).await.unwrap_err();
        assert!(stranger.to_string().contains("write whimbrel://KEY@127.0.0.1:"), "{stranger}");
        let told = RefCell::new(Vec::new());
        let tell = |notice: Notice| told.borrow_mut().push(notice.to_string());
        let mut first = dial().trust_on_first_use().prepare(tell).await.unwrap();
        let mocket = first.connect(tell).await.unwrap();
        assert_eq!(mocket.peer_key(), Some(endpoint.public_key()));
        assert!(told.borrow().len() == 1 && told.borrow()[0].starts_with("trusting "), "{told:?}");
        let mut second = dial().prepare(drop).await.unwrap();
        let mocket = second.connect(drop).await.unwrap();
        second.established(&mocket).await.unwrap();

        let paths = Paths::Only(vec!["127.0.0.1".parse().unwrap()]);
        let mut both = dial().bind("127.0.0.1:0".parse().unwrap());
        both.config.paths = paths;
        assert!(matches!(both.prepare(drop).await, Err(DialError::BindAndPaths)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
