//! The brokers to use, and the key.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use whimbrel::{Config, Endpoint, Url};
use whimbrel_pubsub::client::{Client, ClientOptions, endpoint_config};
use whimbrel_service::bind;
use whimbrel_service::key::{own_or_new, own_or_temporary};

use crate::dial::{PskOptions, TransportOptions, WaitOption};
use crate::output::note;
use crate::process::Misused;
use crate::units;

/// The brokers.
#[derive(Args, Clone, Debug)]
pub(super) struct BrokerOptions {
    /// A broker's URL, as it printed it: whimbrel://KEY@HOST:PORT. Repeat it to name others to fall back to.
    #[arg(long = "broker", value_name = "URL", required = true)]
    brokers: Vec<Url>,
    /// Our own key file, by which brokers recognise us [default: ~/.config/whimbrel/key if it exists, else a key for this run].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    psk: PskOptions,
    /// The local address and port to send from [default: any].
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    bind: Option<SocketAddr>,
    #[command(flatten)]
    wait: WaitOption,
    #[command(flatten)]
    transport: TransportOptions,
}

impl BrokerOptions {
    /// How long a broker may take to answer.
    pub(super) fn patience(&self) -> std::time::Duration {
        self.wait.time()
    }

    /// Makes the key if it is missing: what brokers keep for a client belongs to its key.
    pub(super) fn need_key(&self) -> anyhow::Result<()> {
        let (_, is_new) = own_or_new(self.key.as_deref())?;
        if is_new {
            note(format_args!("made a key, to which the durable subscription belongs"));
        }
        Ok(())
    }

    /// Starts a client, and waits until it is connected.
    pub(super) async fn connect(&self, give_up: bool) -> anyhow::Result<(Endpoint, Client)> {
        if let Some(url) = self.brokers.iter().find(|url| url.key.is_none()) {
            let text = format!(
                "{url} names no key: write whimbrel://KEY@{}:{}, as the broker printed it",
                url.host, url.port
            );
            return Err(Misused(text).into());
        }
        let (identity, _) = own_or_temporary(self.key.as_deref())?;
        let config = endpoint_config(Config::default().transport(self.transport.config()))
            .identity(identity)
            .psk(self.psk.read()?)
            .paths(self.transport.paths.paths()?);
        let any = (std::net::Ipv6Addr::UNSPECIFIED, 0).into();
        let endpoint = match self.bind {
            Some(address) => bind(config, address).await?,
            None => match bind(config.clone(), any).await {
                Ok(endpoint) => endpoint,
                Err(_) => bind(config, (std::net::Ipv4Addr::UNSPECIFIED, 0).into()).await?,
            },
        };
        let mut options = ClientOptions::new(self.brokers.iter().cloned());
        options.patience = self.wait.time();
        options.give_up_after = give_up.then(|| self.wait.time());
        Ok((endpoint.clone(), Client::start(endpoint, options)))
    }
}
