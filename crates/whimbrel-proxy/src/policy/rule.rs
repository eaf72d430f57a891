//! One rule: which flows it is for, and what becomes of them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use whimbrel::Service;
use whimbrel::units::as_text as units;

use super::condition::Condition;
use super::dscp::Dscp;
use super::origin::{Interfaces, Origin, WayIn};
use super::pattern::Pattern;
use crate::compress::Method;
use crate::protocol::Target;
use crate::text::as_text;

/// The protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP echo, and that of ICMPv6. A rule is for it only if it says so.
    Icmp,
}

impl Protocol {
    /// Returns its name, as in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        }
    }
}

/// The fate of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is carried to a peer.
    #[default]
    Carry,
    /// This proxy connects to the target itself. Only TCP.
    Direct,
    /// The program is told that it may not.
    Reject,
    /// The program hears nothing.
    Drop,
    /// It waits: a TCP flow is opened, or goes on, when this rule is no longer for it. Datagrams are dropped meanwhile.
    Hold,
}

/// The moment at which the TCP connection of an intercepted program is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accept {
    /// Once the far end is connected, so that the program learns what the far end learns.
    Held,
    /// At once, which saves a round trip. If the far end cannot connect, the program is reset.
    Early,
}

/// The party that answers questions for names (DNS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dns {
    /// The server that they were sent to.
    #[default]
    Passed,
    /// This proxy, if it has heard the server's answer and that is still valid.
    Cache,
}

/// The properties of a flow that rules look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowKey {
    /// Its protocol.
    pub protocol: Protocol,
    /// The target of the program.
    pub target: Target,
    /// The program's address.
    pub source: SocketAddr,
    /// The way in, as far as that is known.
    pub origin: Origin,
}

/// A rule. A condition that is not set holds for every flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name in the status and in logs.
    pub name: String,
    /// Only flows of this protocol.
    #[serde(default)]
    pub protocol: Option<Protocol>,
    /// Only flows to these targets. A name is compared as the program gave it; networks hold for addresses only.
    #[serde(default, with = "as_text::some")]
    pub to: Vec<Pattern>,
    /// Only flows of programs in these networks.
    #[serde(default, with = "as_text::some_networks")]
    pub from: Vec<IpNet>,
    /// Only flows that come in by one of these ways.
    #[serde(default, with = "as_text::some")]
    pub by: Vec<WayIn>,
    /// Only flows whose packets arrive on one of these interfaces. A way in that does not see packets knows none.
    #[serde(default, with = "as_text::some")]
    pub interface: Vec<Interfaces>,
    /// Only flows whose packets have one of these DSCPs. A way in that does not see packets knows none.
    #[serde(default, with = "as_text::some")]
    pub dscp: Vec<Dscp>,
    /// Only while all of these hold towards its peer.
    #[serde(default, with = "as_text::some")]
    pub when: Vec<Condition>,
    /// The fate of the flows that match.
    #[serde(default)]
    pub action: Action,
    /// Whether a flow that runs when this rule begins to be for it is reset, unless the rule would carry it. Default: it
    /// goes on.
    #[serde(default)]
    pub existing: bool,
    /// The name of the peer that they are carried to. Default: the first that is dialled, or the first.
    #[serde(default)]
    pub peer: Option<String>,
    /// The priority of TCP flows and datagrams among all of the session, 0 to 255. Default: 100.
    #[serde(default)]
    pub priority: Option<u8>,
    /// The longest time that a datagram may wait to be sent. Default: 1 s.
    #[serde(default, with = "units::optional_duration")]
    pub lifetime: Option<Duration>,
    /// The service of datagrams. Default: unreliable and unsequenced.
    #[serde(default, with = "as_text::optional_service")]
    pub service: Option<Service>,
    /// The most that all its TCP flows together may send, and all its datagrams, in each direction; bit/s. Default: no cap.
    #[serde(default, with = "as_text::optional_rate")]
    pub cap: Option<u64>,
    /// The longest time that a small datagram, or a small write of a TCP program, may wait for others to travel with; at most 500 ms.
    /// Default: not at all.
    #[serde(default, with = "units::optional_duration")]
    pub gather: Option<Duration>,
    /// The party that answers datagrams to port 53. Default: the server that they were sent to.
    #[serde(default)]
    pub dns: Dns,
    /// The number of bytes that a program may write while its peer cannot be reached, beyond the stream's window. Default: none.
    #[serde(default, with = "units::optional_bytes")]
    pub hold_bytes: Option<usize>,
    /// Whether the activity log has a line for each flow that meets this rule, and the metrics a counter. Default: no.
    #[serde(default)]
    pub log: bool,
    /// The time that a TCP flow waits for a peer that cannot be reached. Default: as long as the session lives.
    #[serde(default, with = "units::optional_duration")]
    pub outage: Option<Duration>,
    /// Their compression on the link, such as `zstd:3`. Default: none.
    #[serde(default)]
    pub compression: Option<Method>,
    /// The name of a dictionary for that.
    #[serde(default)]
    pub dictionary: Option<String>,
    /// The moment at which an intercepted TCP connection is accepted. Default: once the far end is connected.
    #[serde(default)]
    pub accept: Option<Accept>,
}

impl Rule {
    /// Returns whether it is for this flow.
    pub fn matches(&self, key: &FlowKey) -> bool {
        covers_protocol(self.protocol, Some(key.protocol))
            && any(&self.to, |to| to.matches(&key.target.host, key.target.port))
            && any(&self.from, |from| contains(from, key.source.ip()))
            && any(&self.by, |by| key.origin.by == Some(*by))
            && any(&self.interface, |wanted| {
                key.origin.interface.as_ref().is_some_and(|name| wanted.contain(name))
            })
            && any(&self.dscp, |dscp| key.origin.dscp == Some(*dscp))
    }

    /// Returns whether it would be for this flow if more were known of how that came in.
    pub fn might_match(&self, key: &FlowKey) -> bool {
        let Origin { by, interface, dscp } = &key.origin;
        let known = Self {
            by: if by.is_some() { self.by.clone() } else { Vec::new() },
            interface: if interface.is_some() { self.interface.clone() } else { Vec::new() },
            dscp: if dscp.is_some() { self.dscp.clone() } else { Vec::new() },
            ..self.clone()
        };
        known.matches(key)
    }

    /// Returns the networks to which its flows go; names have none.
    pub fn networks(&self) -> Vec<IpNet> {
        match self.to.is_empty() {
            true => Pattern::everywhere().to_vec(),
            false => self.to.iter().flat_map(Pattern::networks).collect(),
        }
    }

    /// Returns whether it is for every flow that `other` is for.
    pub fn covers(&self, other: &Self) -> bool {
        self.when.is_empty()
            && covers_protocol(self.protocol, other.protocol)
            && covers(&self.to, &other.to, Pattern::covers)
            && covers(&self.from, &other.from, |wide, narrow| wide.contains(narrow))
            && covers(&self.by, &other.by, WayIn::eq)
            && covers(&self.interface, &other.interface, Interfaces::cover)
            && covers(&self.dscp, &other.dscp, Dscp::eq)
    }
}

/// Whether a rule with the first protocol is for flows of the second. Without one, it is for TCP and UDP.
fn covers_protocol(wide: Option<Protocol>, narrow: Option<Protocol>) -> bool {
    match wide {
        None => narrow != Some(Protocol::Icmp),
        wide => wide == narrow,
    }
}

/// Whether a condition holds: it is not set, or one of its parts holds.
fn any<T>(parts: &[T], holds: impl Fn(&T) -> bool) -> bool {
    parts.is_empty() || parts.iter().any(holds)
}

/// Whether one condition holds wherever the other does.
fn covers<T>(wide: &[T], narrow: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
    wide.is_empty()
        || !narrow.is_empty() && narrow.iter().all(|part| wide.iter().any(|whole| covers(whole, part)))
}

fn contains(network: &IpNet, ip: IpAddr) -> bool {
    network.contains(&ip.to_canonical())
}
