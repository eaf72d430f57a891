//! Connecting and listening: which keys to trust, which key to use, and how the connection is set up.

use std::fmt::Display;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, anyhow, bail};
use clap::Args;
use whimbrel::{
    BindError, CloseReason, Config, Congestion, ConnectError, Endpoint, Identity, ListenConfig, Mocket,
    Paths, PublicKey, Repeats, TransportConfig, Url,
};

use crate::key::{
    KnownPeers, PskOptions, ResetSalt, default_key_file, default_known_peers_file, own_or_temporary,
};
use crate::output::note;
use crate::paths::PathOptions;
use crate::process::Misused;
use crate::units;

/// Options of the connecting end.
#[derive(Args, Clone, Debug)]
pub(crate) struct DialOptions {
    /// The listener's address, as it printed it: whimbrel://KEY@HOST:PORT. Without KEY@, see --trust-on-first-use.
    pub(crate) url: Url,
    /// Our own key file, by which the peer recognises us [default: ~/.config/whimbrel/key if it exists, else a key for this run].
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) psk: PskOptions,
    /// Trust the key that the peer shows the first time, remember it, and require it from then on. The listener needs --show-key.
    #[arg(long)]
    pub(crate) trust_on_first_use: bool,
    /// The file that remembers the keys of peers [default: ~/.config/whimbrel/known_peers].
    #[arg(long, value_name = "FILE")]
    pub(crate) known_peers: Option<PathBuf>,
    /// The local address and port to send from [default: any].
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    pub(crate) bind: Option<String>,
    #[command(flatten)]
    pub(crate) wait: WaitOption,
}

/// How long to wait for a peer.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WaitOption {
    /// How long the peer may take to answer and to complete the handshake, in seconds or with a unit; looking up the
    /// host's address may take twice as long. It does not limit what comes later: `cat` waits up to an hour for a
    /// connected peer that is out of reach, or until Ctrl-C; `perf run` waits for such a peer as long as this again.
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = units::wait)]
    wait: Duration,
}

impl WaitOption {
    pub(crate) fn time(self) -> Duration {
        self.wait
    }
}

/// Options of the listening end.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListenOptions {
    /// The address and port to listen on. Port 0 takes any free one [default: [::]:4433, all addresses of both families].
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    pub(crate) listen: Option<String>,
    /// Our key file; `whimbrel key new` makes one [default: ~/.config/whimbrel/key if it exists, else a key for this
    /// run]. Unless the port is 0, a file KEY.salt-ADDRESS-PORT is kept beside it, which lets peers notice at once
    /// that the program was restarted.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) psk: PskOptions,
    /// Tell our public key to strangers who ask for it, so that they can trust it on first use.
    #[arg(long)]
    pub(crate) show_key: bool,
    /// Accept connections from this public key only. May be repeated; others get no answer [default: any key].
    #[arg(long, value_name = "KEY")]
    pub(crate) allow: Vec<PublicKey>,
    /// Whether clients get tickets, and early data of clients with a ticket is delivered at once.
    #[arg(skip)]
    pub(crate) tickets: bool,
}

/// Options of connections, for both ends.
#[derive(Args, Clone, Debug)]
pub(crate) struct TransportOptions {
    /// Congestion control of what this end sends: gauge, cubic, or fixed:RATE.
    #[arg(long, value_name = "gauge|cubic|fixed:RATE", default_value = "gauge")]
    pub(crate) congestion: Congestion,
    /// How many times small messages are repeated on an underused path: auto (once, or twice if much is lost), or a number.
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    pub(crate) repeats: Repeats,
    #[command(flatten)]
    pub(crate) paths: PathOptions,
}

impl TransportOptions {
    /// Converts the options to the library's settings.
    pub(crate) fn config(&self) -> TransportConfig {
        let mut config = TransportConfig::default();
        config.congestion = self.congestion;
        config.repeats = self.repeats;
        self.paths.configure(&mut config);
        config
    }
}

/// A connection to make, once it is clear which key to trust.
pub(crate) struct Dial {
    endpoint: Endpoint,
    url: Url,
    trust: Trust,
    wait: Duration,
    /// Whether our key is for this run only.
    temporary: bool,
}

enum Trust {
    /// The peer must have the key in the URL.
    Key,
    /// The peer must have the key that it showed before.
    Remembered(PublicKey, KnownPeers),
    /// Any key that the peer shows is trusted and remembered.
    FirstUse(KnownPeers),
}

impl DialOptions {
    /// Decides which key to trust and opens the socket.
    ///
    /// # Errors
    /// The URL, the key files, the known peers or the socket cannot be used.
    pub(crate) async fn prepare(&self, transport: TransportConfig, paths: Paths) -> anyhow::Result<Dial> {
        if self.bind.is_some() && matches!(paths, Paths::Only(_)) {
            bail!(Misused("--bind and --path both say where to send from: leave one out".to_owned()));
        }
        let url = self.url.clone();
        let mut transport = transport;
        transport.handshake_timeout = self.wait.time();
        let trust = self.trust(&url)?;
        let (identity, temporary) = own_or_temporary(self.key.as_deref())?;
        let config =
            Config::default().identity(identity).transport(transport).paths(paths).psk(self.psk.read()?);
        let is_ipv4 = url.host.parse::<std::net::Ipv4Addr>().is_ok();
        let endpoint = match &self.bind {
            Some(address) => bind(config, address).await?,
            None if is_ipv4 => bind(config, "0.0.0.0:0").await?,
            None => bind_both_families(config, 0).await?,
        };
        Ok(Dial { endpoint, url, trust, wait: self.wait.time(), temporary })
    }

    fn trust(&self, url: &Url) -> anyhow::Result<Trust> {
        if url.key.is_some() {
            return Ok(Trust::Key);
        }
        let peers = KnownPeers::load(&self.known_peers.clone().map_or_else(default_known_peers_file, Ok)?)?;
        match peers.key_of(url) {
            Some(key) => Ok(Trust::Remembered(key, peers)),
            None if self.trust_on_first_use => Ok(Trust::FirstUse(peers)),
            None => bail!(
                "{url} names no key, and the peer is not known: write whimbrel://KEY@{}:{}, or add --trust-on-first-use",
                url.host,
                url.port
            ),
        }
    }
}

impl Dial {
    /// The endpoint with the open socket.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Connects. With a key in the URL it does not wait for the handshake, so that data sent at once travels with it.
    ///
    /// # Errors
    /// There was no answer, or not from the trusted peer.
    pub(crate) async fn connect(&mut self) -> anyhow::Result<Mocket> {
        // The handshake has a time limit of its own; the address lookup has none.
        let (limit, host) = (self.wait * 2, self.url.host.clone());
        let connected = tokio::time::timeout(limit, self.begin()).await;
        connected.unwrap_or_else(|_| bail!("cannot find the address of {host} in time: check the name"))
    }

    /// Waits for the handshake of a connection that was begun.
    ///
    /// # Errors
    /// There was no answer, or not from the trusted peer.
    pub(crate) async fn established(&self, mocket: &Mocket) -> anyhow::Result<()> {
        mocket.established().await.map_err(|reason| match reason {
            CloseReason::HandshakeTimedOut => anyhow!(self.no_answer(mocket.peer_addr())),
            other => other.into(),
        })
    }

    /// The message shown if there is no answer at this address.
    pub(crate) fn no_answer(&self, address: impl Display) -> String {
        no_answer(address, self.wait, self.endpoint.public_key(), self.temporary)
    }

    async fn begin(&mut self) -> anyhow::Result<Mocket> {
        let url = self.url.to_string();
        let nobody = self.no_answer(format_args!("{}:{}", self.url.host, self.url.port));
        match &mut self.trust {
            Trust::Key => Ok(self.endpoint.begin_connect(&url).await?),
            Trust::Remembered(key, peers) => {
                let (key, path) = (*key, peers.path().display().to_string());
                self.endpoint.connect_trusting(&url, Some(key)).await.map_err(|error| match error {
                    ConnectError::Closed(CloseReason::HandshakeTimedOut) => anyhow!(nobody),
                    ConnectError::Closed(CloseReason::Handshake(why)) => anyhow!(
                        "the peer does not prove the key {key} it had before ({why}): somebody may stand in its place. If it \
                         really has a new key, remove its line from {path}"
                    ),
                    other => other.into(),
                })
            }
            Trust::FirstUse(peers) => {
                let mocket =
                    self.endpoint.connect_trusting(&url, None).await.map_err(|error| match error {
                        ConnectError::Closed(CloseReason::HandshakeTimedOut) => {
                            anyhow!("{nobody}. It has to listen with --show-key")
                        }
                        other => other.into(),
                    })?;
                let key = mocket.peer_key().context("the peer has shown no key")?;
                peers.remember(&self.url, key)?;
                note(format_args!(
                    "trusting {key} for {url} from now on; it is in {}",
                    peers.path().display()
                ));
                Ok(mocket)
            }
        }
    }
}

/// The message shown if there is no answer: which address was asked, with which key, and what to check. A listener
/// that refuses a stranger stays silent.
pub(crate) fn no_answer(address: impl Display, wait: Duration, own: PublicKey, temporary: bool) -> String {
    let until = if temporary { " (for this run only: `whimbrel key new` makes one that stays)" } else { "" };
    format!(
        "no answer from {address} within {} s. Check the address and the port, that somebody listens there, and that firewalls let UDP \
         through. Check that the URL has the listener's key, and that both ends have the same pre-shared key, or none. If the listener \
         has --allow, it must list our key, {own}{until}",
        wait.as_secs_f64()
    )
}

impl ListenOptions {
    /// Opens the socket. Returns the endpoint and the URL that others connect to.
    ///
    /// # Errors
    /// The key file cannot be used, or the port is taken.
    pub(crate) async fn bind(
        &self,
        transport: TransportConfig,
        paths: Paths,
    ) -> anyhow::Result<(Endpoint, String)> {
        let (identity, temporary) = own_or_temporary(self.key.as_deref())?;
        if temporary {
            note("using a key for this run only; `whimbrel key new` makes one that stays");
        }
        let psk = self.psk.read()?;
        let salt = if temporary { None } else { self.reset_salt()? };
        let reset_salt = salt.as_ref().and_then(ResetSalt::value);
        let config = self.config(identity, transport).paths(paths).psk(psk).reset_salt(reset_salt);
        let bound = match &self.listen {
            Some(address) => bind(config, address).await,
            None => bind_both_families(config, whimbrel::DEFAULT_PORT).await,
        };
        // A process that cannot listen leaves no file behind, and reports only why.
        if let Some(salt) = salt {
            if bound.is_ok() { salt.keep() } else { salt.discard() }
        }
        let endpoint = bound?;
        let mut address = endpoint.local_addr()?;
        // People need an address to connect to, even if it works only on this machine.
        if address.ip().is_unspecified() {
            let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
            address.set_ip(loopback.parse()?);
            note("listening on all addresses: from other machines, connect to this host's name instead");
        }
        let url = format!("whimbrel://{}@{address}", endpoint.public_key());
        Ok((endpoint, url))
    }

    /// The salt of reset tokens, stored beside the key.
    fn reset_salt(&self) -> anyhow::Result<Option<ResetSalt>> {
        let key = self.key.clone().map_or_else(default_key_file, Ok)?;
        let address = self.listen.clone().unwrap_or_else(|| format!("[::]:{}", whimbrel::DEFAULT_PORT));
        Ok(ResetSalt::take(&key, &address))
    }

    fn config(&self, identity: Identity, transport: TransportConfig) -> Config {
        let mut listen = ListenConfig::default();
        listen.acceptor.show_key = self.show_key;
        listen.early_from_tickets = self.tickets;
        let config = Config::default().identity(identity).transport(transport).listen(Some(listen));
        if self.allow.is_empty() { config } else { config.allow(self.allow.iter().copied()) }
    }
}

/// Listens on all addresses of both families, or of IPv4 only on a machine without IPv6.
async fn bind_both_families(config: Config, port: u16) -> anyhow::Result<Endpoint> {
    match Endpoint::bind(config.clone(), &format!("[::]:{port}")).await {
        Err(BindError::System(_, error)) if error.kind() != ErrorKind::AddrInUse => {
            bind(config, &format!("0.0.0.0:{port}")).await
        }
        bound => bound.map_err(bind_error),
    }
}

/// Binds like the library, with error messages for users of the program.
pub(crate) async fn bind(config: Config, address: &str) -> anyhow::Result<Endpoint> {
    Endpoint::bind(config, address).await.map_err(bind_error)
}

fn bind_error(error: BindError) -> Error {
    let BindError::System(address, why) = &error else { return error.into() };
    match bind_advice(*address, why) {
        Some(advice) => anyhow!("cannot bind {address}: {advice}"),
        None => error.into(),
    }
}

/// Explains why an address could not be bound, and what to do. `None` if the system's own message is good enough.
pub(crate) fn bind_advice(address: SocketAddr, why: &std::io::Error) -> Option<String> {
    Some(match (why.kind(), address.port()) {
        (ErrorKind::PermissionDenied, 1..1024) => {
            "this user may not have a port below 1024. Choose one above 1023, or give the \
             program such ports with `sudo setcap cap_net_bind_service=+ep \"$(command -v whimbrel)\"`"
                .to_owned()
        }
        (ErrorKind::PermissionDenied, _) => {
            format!("the system does not allow it ({why}). Choose another address or port")
        }
        (ErrorKind::AddrInUse, _) => {
            "another program has that port, perhaps an earlier whimbrel. End that program, or choose \
             another port; port 0 takes any free one"
                .to_owned()
        }
        (ErrorKind::AddrNotAvailable, _) => format!(
            "this host does not have the address {}. `ip address` lists those it has; 0.0.0.0 or [::] stands for all of them",
            address.ip()
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        dial: DialOptions,
    }

    #[test]
    fn a_peer_that_does_not_answer_is_waited_for_as_long_as_was_said() {
        let url = format!("whimbrel://{}@127.0.0.1:9", whimbrel::new_identity().public());
        for (arguments, wait) in [(&[][..], 5_000), (&["--wait", "300ms"], 300), (&["--wait", "40"], 40_000)]
        {
            let line = [&["whimbrel", &url], arguments].concat();
            let dial = Line::try_parse_from(line).unwrap().dial;
            assert_eq!(dial.wait.time(), Duration::from_millis(wait));
        }
        for wrong in [&["--wait", "0"][..], &["--wait", "1e18"], &["--wait", "soon"]] {
            assert!(Line::try_parse_from([&["whimbrel", &url], wrong].concat()).is_err());
        }
    }

    #[test]
    fn a_port_that_is_not_ours_says_what_to_do() {
        for (kind, address, hint) in [
            (ErrorKind::PermissionDenied, "0.0.0.0:80", "one above 1023"),
            (ErrorKind::PermissionDenied, "[::]:80", "cap_net_bind_service"),
            (ErrorKind::PermissionDenied, "0.0.0.0:4433", "Choose another address or port"),
            (ErrorKind::AddrInUse, "0.0.0.0:4433", "port 0 takes any free one"),
            (ErrorKind::AddrNotAvailable, "192.0.2.1:4433", "does not have the address 192.0.2.1."),
        ] {
            let error = bind_error(BindError::System(address.parse().unwrap(), kind.into())).to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
