//! Connecting and listening: which keys to trust, which key to use, and how the connection is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Error, anyhow};
use clap::Args;
use whimbrel::{Config, Congestion, Paths, PublicKey, Repeats, Secret, TransportConfig, Url};
use whimbrel_service::key::{PskError, read_psk};
use whimbrel_service::{Dial, DialError, DialOptions, ListenSettings};

use crate::output::note;
use crate::paths::PathOptions;
use crate::process::Misused;
use crate::units;

/// Options of the connecting end.
#[derive(Args, Clone, Debug)]
pub(crate) struct DialArgs {
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
    pub(crate) bind: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) wait: WaitOption,
}

/// Options of a pre-shared key, for both ends.
#[derive(Args, Clone, Debug)]
pub(crate) struct PskOptions {
    /// A file with a pre-shared key, 64 hexadecimal digits; `whimbrel key psk` makes one. The peer must have the same one, beside its own
    /// key. Connecting takes a round trip more, since nothing is sent early [default: the value of WHIMBREL_PSK, else none].
    #[arg(long, value_name = "FILE")]
    psk: Option<PathBuf>,
}

impl PskOptions {
    /// Reads the key from the file, or else from the environment.
    ///
    /// # Errors
    /// The text is not a key, or others can read the file.
    pub(crate) fn read(&self) -> Result<Option<Secret>, PskError> {
        read_psk(self.psk.as_deref())
    }
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
pub(crate) struct ListenArgs {
    /// The address and port to listen on. Port 0 takes any free one [default: [::]:4433, all addresses of both families].
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Read settings from this TOML file; options on the command line override it. SIGHUP and `whimbrel reload` read
    /// it again. `whimbrel check FILE` checks it, and docs/whimbrel.toml shows all settings.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Our key file; `whimbrel key new` makes one [default: ~/.config/whimbrel/key if it exists, else a key for this
    /// run]. Unless the port is 0, a file KEY.salt-ADDRESS-PORT is kept beside it, which lets peers notice at once
    /// that the program was restarted.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) psk: PskOptions,
    /// Show our public key to clients that ask for it, so that they can trust it on first use.
    #[arg(long)]
    pub(crate) show_key: bool,
    /// Accept connections from this public key only. May be repeated; others get no answer [default: any key].
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) allow: Vec<PublicKey>,
    /// Whether clients get tickets, and early data of clients with a ticket is delivered at once.
    #[arg(skip)]
    pub(crate) tickets: bool,
}

/// Options of connections, for both ends.
#[derive(Args, Clone, Debug)]
pub(crate) struct TransportOptions {
    /// Congestion control of what this end sends: gauge, cubic, or fixed:RATE [default: gauge].
    #[arg(long, value_name = "gauge|cubic|fixed:RATE")]
    pub(crate) congestion: Option<Congestion>,
    /// How many times small messages are repeated on an underused path: auto (once, or twice if much is lost), or a number [default:
    /// auto].
    #[arg(long, value_name = "auto|N")]
    pub(crate) repeats: Option<Repeats>,
    #[command(flatten)]
    pub(crate) paths: PathOptions,
}

impl TransportOptions {
    /// Converts the options to the library's settings.
    pub(crate) fn config(&self) -> TransportConfig {
        let mut config = TransportConfig::default();
        self.apply(&mut config);
        config
    }

    /// Sets what was given.
    pub(crate) fn apply(&self, config: &mut TransportConfig) {
        config.congestion = self.congestion.unwrap_or(config.congestion);
        config.repeats = self.repeats.unwrap_or(config.repeats);
        self.paths.configure(config);
    }
}

impl DialArgs {
    /// Decides which key to trust and opens the socket. `protocol` is what the connection names as its application
    /// protocol.
    ///
    /// # Errors
    /// The URL, the key files, the known peers or the socket cannot be used.
    pub(crate) async fn prepare(
        &self,
        protocol: &'static str,
        transport: TransportConfig,
        paths: Paths,
    ) -> anyhow::Result<Dial> {
        let config = Config::default().protocol(protocol.into()).transport(transport).paths(paths);
        let mut options = DialOptions::new(self.url.clone(), config);
        options.key = self.key.clone();
        options.psk = self.psk.psk.clone();
        options.trust_on_first_use = self.trust_on_first_use;
        options.known_peers = self.known_peers.clone();
        options.bind = self.bind;
        options.wait = self.wait.time();
        options.prepare(note).await.map_err(in_options)
    }
}

/// Names the options of the command line where the error is about them.
fn in_options(error: DialError) -> Error {
    match error {
        DialError::BindAndPaths => {
            Misused("--bind and --path both say where to send from: leave one out".to_owned()).into()
        }
        DialError::Stranger(url) => anyhow!(
            "{url} names no key, and the peer is not known: write whimbrel://KEY@{}:{}, or add --trust-on-first-use",
            url.host,
            url.port
        ),
        other => other.into(),
    }
}

impl ListenArgs {
    /// Sets what was given.
    pub(crate) fn apply(&self, settings: &mut ListenSettings) {
        settings.address = self.listen.or(settings.address);
        for (given, setting) in [(&self.key, &mut settings.key), (&self.psk.psk, &mut settings.psk)] {
            if let Some(given) = given {
                *setting = Some(given.clone());
            }
        }
        let config = &mut settings.config;
        config.acceptor.show_key |= self.show_key;
        config.early_from_tickets |= self.tickets;
        if !self.allow.is_empty() {
            config.allow = Some(self.allow.iter().copied().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        dial: DialArgs,
    }

    #[derive(Parser)]
    struct Listen {
        #[command(flatten)]
        listen: ListenArgs,
    }

    #[test]
    fn a_key_may_begin_with_a_hyphen() {
        let key = format!("-{}", "A".repeat(42));
        let listen = Listen::try_parse_from(["whimbrel", "--allow", &key]).unwrap().listen;
        assert_eq!(listen.allow[0].to_string(), key);
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
        let plain = DialOptions::new(url.parse().unwrap(), Config::default());
        assert_eq!(plain.wait, Duration::from_secs(5), "the same default");
        for wrong in [&["--wait", "0"][..], &["--wait", "1e18"], &["--wait", "soon"]] {
            assert!(Line::try_parse_from([&["whimbrel", &url], wrong].concat()).is_err());
        }
    }
}
