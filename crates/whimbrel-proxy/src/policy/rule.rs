//! One rule: which flows it is for, and what becomes of them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use whimbrel::units::as_text as units;

use super::condition::Condition;
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
}

impl Protocol {
    /// Its name, as in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
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

/// When the TCP connection of an intercepted program is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accept {
    /// Once the far end is connected, so that the program learns what the far end learns.
    Held,
    /// At once, which saves a round trip. If the far end cannot connect, the program is reset.
    Early,
}

/// The properties of a flow that rules look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its protocol.
    pub protocol: Protocol,
    /// Where the program wants to go.
    pub target: Target,
    /// The program's address.
    pub source: SocketAddr,
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
    #[serde(default, with = "as_text::list")]
    pub to: Vec<Pattern>,
    /// Only flows of programs in these networks.
    #[serde(default, with = "as_text::list")]
    pub from: Vec<IpNet>,
    /// Only while all of these hold towards its peer.
    #[serde(default, with = "as_text::list")]
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
    /// How long a datagram may wait to be sent. Default: 1 s.
    #[serde(default, with = "units::optional_duration")]
    pub lifetime: Option<Duration>,
    /// How long a TCP flow waits for a peer that cannot be reached. Default: as long as the session lives.
    #[serde(default, with = "units::optional_duration")]
    pub outage: Option<Duration>,
    /// How they are compressed on the link, such as `zstd:3`. Default: not at all.
    #[serde(default)]
    pub compression: Option<Method>,
    /// The name of a dictionary for that.
    #[serde(default)]
    pub dictionary: Option<String>,
    /// When an intercepted TCP connection is accepted. Default: once the far end is connected.
    #[serde(default)]
    pub accept: Option<Accept>,
}

impl Rule {
    /// Returns whether it is for this flow.
    pub fn matches(&self, key: &Key) -> bool {
        self.protocol.is_none_or(|protocol| protocol == key.protocol)
            && any(&self.to, |to| to.matches(&key.target.host, key.target.port))
            && any(&self.from, |from| contains(from, key.source.ip()))
    }

    /// Returns whether it is for every flow that `other` is for.
    pub fn covers(&self, other: &Self) -> bool {
        self.when.is_empty()
            && self.protocol.is_none_or(|protocol| other.protocol == Some(protocol))
            && covers(&self.to, &other.to, Pattern::covers)
            && covers(&self.from, &other.from, |wide, narrow| wide.contains(narrow))
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
