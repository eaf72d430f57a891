//! `whimbrel proxy explain`: what the rules of a file say of a flow.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use whimbrel_proxy::Settings;
use whimbrel_proxy::policy::{Accept, Action, Decision, Key, Protocol, Rules};
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
        for (at, rule) in rules.before(&decision, &key) {
            let conditions: Vec<_> = rule.when.iter().map(|condition| format!("`{condition}`")).collect();
            let what = said(&Decision::of(at, rule), &settings);
            let (number, name) = (at + 1, &rule.name);
            print_line(format_args!("{what} while {}: rule {number}, `{name}`", conditions.join(" and ")))?;
        }
        let why = match &decision.rule {
            Some((at, name)) => format!("rule {}, `{name}`, is the first that matches", at + 1),
            None => "no rule matches".to_owned(),
        };
        print_line(format_args!("{}: {why}", said(&decision, &settings)))
    }
}

/// Returns the fate of a flow, in words.
fn said(decision: &Decision, settings: &Settings) -> String {
    let what = match decision.action {
        Action::Carry => match decision.peer.clone().or_else(|| first(settings)) {
            Some(peer) => format!("carried to {peer}"),
            None => "carried nowhere, since there is no [[peer]]".to_owned(),
        },
        Action::Direct => "connected by this proxy itself".to_owned(),
        Action::Reject => "rejected".to_owned(),
        Action::Drop => "dropped".to_owned(),
        Action::Hold => "held".to_owned(),
    };
    let priority = decision.priority.map(|priority| format!(", with priority {priority}"));
    let lifetime = decision.lifetime.map(|lifetime| format!(", for at most {lifetime:?} in the queue"));
    let compression = decision.compression.map(|method| match &decision.dictionary {
        Some(name) => format!(", compressed by {method} with the dictionary {name}"),
        None => format!(", compressed by {method}"),
    });
    let early = decision.accept == Some(Accept::Early);
    let accepted = if early { ", accepted at once if it is intercepted" } else { "" };
    what + &compression.unwrap_or_default()
        + &priority.unwrap_or_default()
        + &lifetime.unwrap_or_default()
        + accepted
}

/// The name or key of the peer that flows go to if no rule names one.
fn first(settings: &Settings) -> Option<String> {
    let peer = settings.first()?;
    peer.name.clone().or_else(|| peer.key().ok().map(|key| key.to_string()))
}
