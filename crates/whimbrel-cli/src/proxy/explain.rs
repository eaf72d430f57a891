//! `whimbrel proxy explain`: what the rules of a file say of a flow.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use whimbrel_proxy::Settings;
use whimbrel_proxy::policy::{
    Accept, Action, Decision, Dns, Dscp, FlowKey, Origin, Protocol, Rule, Rules, WayIn,
};
use whimbrel_proxy::protocol::{Host, InvalidTarget, Target};

use crate::output::print_line;
use crate::process::Misused;
use crate::units;

/// Says how the rules of a file treat a flow, and which rule decides.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  whimbrel proxy explain --config proxy.toml tcp 10.1.2.3:443 --from 192.168.0.7:40000")]
pub(super) struct ExplainCommand {
    /// The protocol: tcp, udp or icmp.
    #[arg(value_name = "tcp|udp|icmp", value_parser = protocol)]
    protocol: Protocol,
    /// Where the program wants to go: HOST:PORT, or for icmp HOST.
    #[arg(value_name = "TARGET")]
    target: String,
    /// The program's address and port.
    #[arg(long, value_name = "ADDR", value_parser = units::address, default_value = "127.0.0.1:40000")]
    from: SocketAddr,
    /// The way in that the program uses: socks, connect, forward, tproxy or tun. Without it, rules with `by` are listed.
    #[arg(long, value_name = "WAY")]
    by: Option<WayIn>,
    /// The interface on which its packets arrive.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The DSCP of its packets: a number, or a name such as ef.
    #[arg(long, value_name = "DSCP")]
    dscp: Option<Dscp>,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        "icmp" => Ok(Protocol::Icmp),
        _ => Err("write tcp, udp or icmp".to_owned()),
    }
}

impl ExplainCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let settings = super::file::read(&self.config)?;
        let rules = Rules::new(settings.rules.clone()).map_err(|error| Misused(error.to_string()))?;
        let target = self.target()?;
        let origin = Origin { by: self.by, interface: self.interface.map(Into::into), dscp: self.dscp };
        let key = FlowKey { protocol: self.protocol, target, source: self.from, origin };
        let decision = rules.decide(&key);
        for (at, rule) in unknown(&rules, &decision, &key) {
            let (number, name, asked) = (at + 1, &rule.name, asked(rule, &key.origin));
            let said = match self.by.filter(|by| !by.sees_packets()) {
                Some(by) => format!("never for what comes in by {by}, which knows nothing of {asked}"),
                None => format!("{} if {asked} fits", said(&Decision::of(at, rule), &settings)),
            };
            print_line(format_args!("{said}: rule {number}, `{name}`"))?;
        }
        for (at, rule) in rules.before(&decision, &key) {
            let conditions: Vec<_> = rule.when.iter().map(|condition| format!("`{condition}`")).collect();
            let what = said(&Decision::of(at, rule), &settings);
            let (number, name) = (at + 1, &rule.name);
            print_line(format_args!("{what} while {}: rule {number}, `{name}`", conditions.join(" and ")))?;
        }
        if self.protocol == Protocol::Icmp && decision.rule.is_none() {
            let what = match settings.ways_in.tun {
                Some(_) => "not answered, if it comes into the TUN interface",
                None => "left alone",
            };
            return print_line(format_args!(
                "{what}: no rule matches, and only one with protocol = \"icmp\" could"
            ));
        }
        let why = match &decision.rule {
            Some((at, name)) => format!("rule {}, `{name}`, is the first that matches", at + 1),
            None => "no rule matches".to_owned(),
        };
        print_line(format_args!("{}: {why}", said(&decision, &settings)))
    }
}

impl ExplainCommand {
    fn target(&self) -> Result<Target, Misused> {
        if self.protocol != Protocol::Icmp {
            return self.target.parse().map_err(|error: InvalidTarget| Misused(error.to_string()));
        }
        let host = Host::new(&self.target);
        let wrong = || Misused(format!("`{}` is not a host: write an address, without a port", self.target));
        Ok(Target { host: host.ok_or_else(wrong)?, port: 0 })
    }
}

/// The rules before that of a decision that would match if more were known of how the flow comes in.
fn unknown<'a>(
    rules: &'a Rules,
    decision: &Decision,
    key: &'a FlowKey,
) -> impl Iterator<Item = (usize, &'a Rule)> {
    let end = decision.rule.as_ref().map_or(rules.all().len(), |(at, _)| *at);
    let all = rules.all()[..end].iter().enumerate();
    all.filter(|(_, rule)| !rule.matches(key) && rule.might_match(key))
}

/// Names the facts that a rule asks for and that are not known.
fn asked(rule: &Rule, origin: &Origin) -> String {
    let all = [
        ("the way in", !rule.by.is_empty() && origin.by.is_none()),
        ("the interface", !rule.interface.is_empty() && origin.interface.is_none()),
        ("the DSCP", !rule.dscp.is_empty() && origin.dscp.is_none()),
    ];
    let all: Vec<_> = all.into_iter().filter(|(_, asked)| *asked).map(|(what, _)| what).collect();
    all.join(" and ")
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
    let service = decision.service.map(|service| format!(", datagrams by {}", service.short()));
    let cap = decision
        .cap
        .map(|cap| format!(", at most {} with others of the rule", whimbrel::units::rate_text(cap)));
    let gather = decision.gather.map(|gather| format!(", small datagrams gathered for {gather:?}"));
    let dns = if decision.dns == Dns::Cache { ", DNS from the cache" } else { "" };
    let hold = decision.hold_bytes.map(|bytes| format!(", {bytes} bytes held in an outage"));
    let early = decision.accept == Some(Accept::Early);
    let accepted = if early { ", accepted at once if it is intercepted" } else { "" };
    what + &compression.unwrap_or_default()
        + &priority.unwrap_or_default()
        + &lifetime.unwrap_or_default()
        + &service.unwrap_or_default()
        + &cap.unwrap_or_default()
        + &gather.unwrap_or_default()
        + dns
        + &hold.unwrap_or_default()
        + accepted
}

/// The name or key of the peer that flows go to if no rule names one.
fn first(settings: &Settings) -> Option<String> {
    let peer = settings.first()?;
    peer.name.clone().or_else(|| peer.key().ok().map(|key| key.to_string()))
}
