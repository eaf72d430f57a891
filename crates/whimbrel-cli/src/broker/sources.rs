//! The sources of a broker's settings.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use whimbrel::{DEFAULT_PORT, PublicKey};
use whimbrel_broker::native::Permissions;
use whimbrel_broker::settings::{ClientSection, OtherClients, Settings};

use super::mqtt::Prepared;
use crate::dial::TransportOptions;
use crate::monitor::MonitorOptions;
use crate::process::Misused;
use crate::units;

/// The configuration file, if there is one, and the options of the command line, which win over it.
#[derive(Args, Clone, Debug)]
pub(super) struct Sources {
    /// The address and port to listen on. Port 0 takes any free one [default: 127.0.0.1:4433].
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    listen: Option<SocketAddr>,
    /// Let the client with this public key publish and subscribe to everything. May be repeated. If neither it nor a file names
    /// clients, every client on this host may, and nobody else.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    allow: Vec<PublicKey>,
    /// Serve MQTT 3.1.1 and 5 clients on this address and port, such as 127.0.0.1:1883. Port 0 takes any free one. Without --config, it is
    /// an address of this host alone, and its clients may do everything [default: no MQTT].
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    mqtt: Option<SocketAddr>,
    /// Serve MQTT clients over WebSocket on this address and port, such as 127.0.0.1:8083, at the path /mqtt. The notes on --mqtt apply here, too. TLS needs a file [default: no WebSocket].
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    mqtt_websocket: Option<SocketAddr>,
    /// Our own key file. It is created if it does not exist [default: ~/.config/whimbrel/key].
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// Read settings from this TOML file; options on the command line override it. SIGHUP and `whimbrel reload` read it again. `whimbrel
    /// broker check FILE` checks it, and docs/broker.toml shows all settings.
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
            Some(file) => super::file::read(file)?,
            None => Settings::default(),
        };
        settings.clients.extend(self.allow.iter().map(|key| ClientSection::everything(*key)));
        settings.permissions().map_err(|error| Misused(error.to_string()))?;
        let listen = self.listen.or(settings.listen.address);
        let listen = listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into());
        settings.listen.address = Some(listen);
        if is_nobody_listed(&settings) {
            check_address(listen)?;
            settings.other_clients = Some(OtherClients::everything());
        }
        self.apply_mqtt(&mut settings)?;
        self.transport.apply(&mut settings.transport);
        self.monitor.apply(&mut settings.service);
        Ok(settings)
    }

    /// Lets MQTT clients in as the command line says.
    fn apply_mqtt(&self, settings: &mut Settings) -> Result<(), Misused> {
        let given = [("--mqtt", self.mqtt), ("--mqtt-websocket", self.mqtt_websocket)];
        let mut given = given.into_iter().filter_map(|(option, address)| Some((option, address?)));
        if self.config.is_none()
            && let Some((option, address)) = given.find(|(_, address)| !address.ip().is_loopback())
        {
            return Err(Misused(format!(
                "{option} {address}: other hosts can reach this address, and MQTT has no keys: write a file that says who may connect, under [mqtt] and [other_clients], and give it to --config"
            )));
        }
        settings.mqtt.address = self.mqtt.or(settings.mqtt.address);
        settings.mqtt.websocket.address = self.mqtt_websocket.or(settings.mqtt.websocket.address);
        if self.config.is_none() && (self.mqtt.is_some() || self.mqtt_websocket.is_some()) {
            settings.mqtt.anonymous = true;
            settings.other_clients.get_or_insert_with(OtherClients::default);
        }
        settings.mqtt().map(drop).map_err(|error| Misused(error.to_string()))
    }

    /// Returns how clients of MQTT are served, with the certificates.
    /// Without a file, clients may do everything, since they are on this host.
    pub(super) fn mqtt(&self, settings: &Settings) -> Result<Option<Prepared>, Misused> {
        let plan = settings.mqtt().map_err(|error| Misused(error.to_string()))?;
        let Some(mut plan) = plan else { return Ok(None) };
        if self.config.is_none() {
            plan.rules.anonymous = Some(Permissions::everything());
        }
        let tls =
            plan.tls.as_ref().map(|files| super::file::load(files, self.config.as_deref())).transpose()?;
        Ok(Some(Prepared { plan, tls }))
    }
}

/// Returns whether the settings let no client do anything.
pub(super) fn is_nobody_listed(settings: &Settings) -> bool {
    settings.clients.is_empty() && settings.other_clients.is_none()
}

/// Checks an address of a broker whose settings list no client: then all may do everything, so no other host may reach it.
pub(super) fn check_address(listen: SocketAddr) -> Result<(), Misused> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    Err(Misused(format!(
        "other hosts can reach the broker on {listen}, but no client may do anything: name clients with --allow KEY, or with \
         [[client]] in a file"
    )))
}
