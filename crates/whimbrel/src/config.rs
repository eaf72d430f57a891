//! The configuration of an endpoint.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use whimbrel_proto::crypto::{Identity, PublicKey, Secret};
use whimbrel_proto::{ListenConfig, TransportConfig};

use crate::identity::new_identity;
use crate::key_log;
use crate::locals::Paths;
use crate::recording;

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
    /// The number of receive loops, each with a socket of its own on the endpoint's address, 1 to 64. The kernel
    /// spreads peers over them by their addresses (`SO_REUSEPORT`, Linux only), so that one endpoint uses several
    /// cores. 0 counts as 1, and more than 64 as 64. Default None: one for each thread of the runtime if the endpoint listens on an address, otherwise one.
    pub receive_loops: Option<usize>,
    /// The networks of this host to use. Default: `Auto`, all of them as they come and go.
    pub paths: Paths,
    /// A mark on all that the endpoint sends (`SO_MARK`), for the system's firewall and routing rules. Linux only, and the
    /// process needs CAP_NET_ADMIN. Default: none.
    pub mark: Option<u32>,
    /// A salt from which the reset tokens of this endpoint are derived. Keep 32 random bytes across restarts: peers
    /// then notice a restart at the same address at once. Default None: a new salt each time. Peers then notice a
    /// restart by silence, or when they dial the session again.
    ///
    /// Two endpoints of one identity must not share a salt while both run, so each process of a fleet needs its own.
    /// Otherwise each would answer for the other's connections, and an attacker who has seen one of their packets
    /// could end them.
    pub reset_salt: Option<Secret>,
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
    receive_loops: Option<usize>,
    paths: Paths,
    mark: Option<u32>,
    reset_salt: Option<Secret>,
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
            receive_loops: None,
            paths: Paths::default(),
            mark: None,
            reset_salt: None,
            key_log: key_log::from_environment(),
            qlog_dir: recording::from_environment(),
        }
    }
}

impl Config {
    /// Creates a configuration that accepts connections from any key, as `identity`.
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
