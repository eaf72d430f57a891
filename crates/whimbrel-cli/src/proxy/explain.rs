//! `whimbrel proxy explain`: what the rules of a file say of a flow.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use whimbrel_proxy::Settings;
use whimbrel_proxy::policy::{Action, Key, Protocol, Rules};
use whimbrel_proxy::protocol::Target;

use crate::output::print_line;
use crate::process::Misused;
use crate::units;

/// Says what becomes of a flow by the rules of a file, and which rule decides.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  whimbrel proxy explain --config proxy.toml tcp 10.1.2.3:443 --from 192.168.0.7:40000")]
pub(super) struct ExplainCommand {
    /// The protocol: tcp or udp.
    #[arg(value_name = "tcp|udp", value_parser = protocol)]
    protocol: Protocol,
    /// Where the program wants to go: HOST:PORT.
    target: Target,
    /// The program's address and port.
    #[arg(long, value_name = "ADDR", value_parser = units::address, default_value = "127.0.0.1:40000")]
    from: SocketAddr,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        _ => Err("write tcp or udp".to_owned()),
    }
}

impl ExplainCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let settings = super::read(&self.config)?;
        let rules = Rules::new(settings.rules.clone()).map_err(|error| Misused(error.to_string()))?;
        let key = Key { protocol: self.protocol, target: self.target, source: self.from };
        let decision = rules.decide(&key);
        let carried = || match decision.peer.clone().or_else(|| first(&settings)) {
            Some(peer) => format!("carried to {peer}"),
            None => "carried nowhere, since no [[peer]] has a `url`".to_owned(),
        };
        let what = match decision.action {
            Action::Carry => carried(),
            Action::Direct => "connected by this proxy itself".to_owned(),
            Action::Reject => "rejected".to_owned(),
            Action::Drop => "dropped".to_owned(),
        };
        let why = match &decision.rule {
            Some((at, name)) => format!("rule {}, `{name}`, is the first that matches", at + 1),
            None => "no rule matches".to_owned(),
        };
        let mut how = String::new();
        if let Some(priority) = decision.priority {
            how = format!(", with priority {priority}");
        }
        if let Some(lifetime) = decision.lifetime {
            how = format!("{how}, for at most {lifetime:?} in the queue");
        }
        print_line(format_args!("{what}{how}: {why}"))
    }
}

/// The name or key of the first peer that is dialled.
fn first(settings: &Settings) -> Option<String> {
    let peer = settings.peers.iter().find(|peer| peer.url.is_some())?;
    peer.name.clone().or_else(|| peer.key().ok().map(|key| key.to_string()))
}
