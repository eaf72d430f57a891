//! The sources of a proxy's settings.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use whimbrel_proxy::intercept::Forward;
use whimbrel_proxy::relay::Dictionaries;
use whimbrel_proxy::{Connector, PeerSettings, PeerUrl, Settings, SettingsError};

use super::permit::Allowed;
use crate::dial::TransportOptions;
use crate::monitor::MonitorOptions;
use crate::process::Misused;
use crate::units;

/// The configuration file, if there is one, and the options of the command line, which win over it.
#[derive(Args, Clone, Debug)]
pub(super) struct Sources {
    /// Accept SOCKS5 connections from programs on this address.
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    socks: Option<SocketAddr>,
    /// Accept HTTP CONNECT connections from programs on this address, which must be on loopback.
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    connect: Option<SocketAddr>,
    /// Forward a port of this host to a target behind the peer: [ADDRESS:]PORT=HOST:PORT. May be repeated.
    #[arg(long, value_name = "FORWARD")]
    forward: Vec<Forward>,
    /// The URL of the peer to carry connections to, as it printed it: whimbrel://KEY@HOST:PORT. Replace `[::1]` with a name or
    /// address of its host. With whimbrel+tcp, the session is one TCP connection.
    #[arg(long, value_name = "URL")]
    peer: Option<PeerUrl>,
    /// Listen for peers on this address. Only allowed peers may connect: see --allow.
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    listen: Option<SocketAddr>,
    /// The carrier of the sessions of --listen: `whimbrel`, or, for comparison, `tcp`, with a TCP connection for each
    /// [default: whimbrel].
    #[arg(long, value_name = "CONNECTOR", requires = "listen")]
    connector: Option<Connector>,
    /// Let the peer with this key open these targets from here: KEY=NETWORK:PORTS, or names such as *.example.org:443,
    /// separated by commas. A network includes loopback only if it lies within it, as 127.0.0.1:22 does. 0.0.0.0/0
    /// does include private networks. May be repeated.
    #[arg(long, value_name = "KEY=TARGETS", allow_hyphen_values = true)]
    allow: Vec<Allowed>,
    /// Load this dictionary for peers whose rules use it. `whimbrel proxy train` makes one. May be repeated.
    #[arg(long, value_name = "FILE")]
    dictionary: Vec<PathBuf>,
    /// Our own key file. It is created if it does not exist [default: ~/.config/whimbrel/key].
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// Read settings from this TOML file; options on the command line override it. SIGHUP and `whimbrel reload` read it
    /// again. `whimbrel proxy check FILE` checks it, and docs/proxy.toml shows all settings.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) transport: TransportOptions,
    #[command(flatten)]
    monitor: MonitorOptions,
}

impl Sources {
    /// Reads the file, if there is one, and applies the command line.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake, or the whole makes no sense.
    pub(super) fn read(&self) -> Result<Settings, Misused> {
        let mut settings = match &self.config {
            Some(file) => super::file::parse(file)?,
            None => Settings::default(),
        };
        let ways = &mut settings.ways_in;
        ways.socks = self.socks.or(ways.socks);
        ways.connect = self.connect.or(ways.connect);
        ways.forward.extend(self.forward.iter().cloned());
        if let Some(url) = &self.peer {
            // It is the one that everything goes to.
            settings.peers.insert(0, PeerSettings::dialled(url.clone()));
        }
        for Allowed { key, permits } in &self.allow {
            let known = settings.peers.iter().position(|peer| peer.key().is_ok_and(|known| known == *key));
            let at = known.unwrap_or_else(|| {
                settings.peers.push(PeerSettings::of_key(*key));
                settings.peers.len() - 1
            });
            settings.peers[at].may_open.extend(permits.iter().cloned());
        }
        if self.listen.is_some() {
            let listen = settings.listen.get_or_insert_default();
            listen.settings.address = self.listen;
            listen.connector = self.connector.unwrap_or(listen.connector);
        }
        for file in &self.dictionary {
            // Peers name dictionaries by their content, so one that has the name of another is ready, too.
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_taken = settings.dictionaries.get(&stem).is_some_and(|known| known != file);
            let name = if is_taken { file.display().to_string() } else { stem };
            settings.dictionaries.insert(name, file.clone());
        }
        Dictionaries::read(&settings.dictionaries).map_err(|error| Misused(error.to_string()))?;
        self.transport.apply(&mut settings.transport);
        self.monitor.apply(&mut settings.service);
        settings.check().map_err(|error| self.refused(&error))?;
        Ok(settings)
    }

    /// Returns the error for these settings. It shows where the file is wrong, if the mistake is the file's.
    fn refused(&self, error: &SettingsError) -> Misused {
        let of_file = self.config.as_deref().and_then(|file| Some((file, super::file::parse(file).ok()?)));
        match of_file {
            Some((file, settings)) if settings.check().as_ref() == Err(error) => {
                super::file::refused(file, &settings, error)
            }
            _ => Misused(error.to_string()),
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
        sources: Sources,
    }

    #[test]
    fn regression_dictionaries_of_one_name_are_all_ready() {
        let folder = std::env::temp_dir().join(format!("whimbrel-dictionaries-{}", std::process::id()));
        let files = ["a/cot.dict", "b/cot.dict"].map(|name| folder.join(name));
        let examples: Vec<_> =
            (0..500).map(|at| format!("<event uid='{at}' type='a-f-G'/>").into_bytes()).collect();
        let bytes = whimbrel_proxy::compress::train(&examples, 2_048).unwrap();
        let mut line = vec!["whimbrel".into(), "--listen".into(), "127.0.0.1:0".into()];
        for file in &files {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, &bytes).unwrap();
            line.extend(["--dictionary".into(), file.clone().into_os_string()]);
        }
        let settings = Line::try_parse_from(line).unwrap().sources.read().unwrap();
        let ready: Vec<_> = settings.dictionaries.values().cloned().collect();
        std::fs::remove_dir_all(folder).unwrap();
        assert!(files.iter().all(|file| ready.contains(file)), "{ready:?}");
    }

    #[test]
    fn a_key_may_begin_with_a_hyphen() {
        let key = format!("-{}", "A".repeat(42));
        let line = ["whimbrel", "--listen", "127.0.0.1:0", "--allow", &format!("{key}=10.0.0.0/8:22")];
        let settings = Line::try_parse_from(line).unwrap().sources.read().unwrap();
        assert_eq!(settings.peers[0].key().unwrap().to_string(), key);
    }
}
