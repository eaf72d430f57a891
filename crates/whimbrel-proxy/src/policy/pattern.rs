//! Targets: a network or a name, and ports.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::ports::Ports;
use super::special::includes;
use crate::protocol::Host;

/// Targets: a network, a name, or all names below one, with ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    hosts: Hosts,
    ports: Ports,
}

/// The hosts of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hosts {
    /// All of them.
    Any,
    /// Those with an address in this network.
    Network(IpNet),
    /// One name, whatever its address.
    Name(Box<str>),
    /// All names below this one: it begins with a dot.
    Below(Box<str>),
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not name targets: write NETWORK:PORTS, for example 0.0.0.0/0:443, [2001:db8::]/32:*, db.internal:5432 or \
     *.example.org:80-443"
)]
pub struct InvalidPattern(String);

impl Pattern {
    /// Returns the ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// The networks of all hosts.
    pub(super) fn everywhere() -> [IpNet; 2] {
        [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())]
    }

    /// Returns the networks of its hosts; names have none.
    pub(super) fn networks(&self) -> Vec<IpNet> {
        match &self.hosts {
            Hosts::Any => Self::everywhere().to_vec(),
            Hosts::Network(network) => vec![*network],
            Hosts::Name(_) | Hosts::Below(_) => Vec::new(),
        }
    }

    /// Returns the hosts.
    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns whether it names a target that has this address or name. An address in a network matches whatever
    /// the address means.
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        self.ports.contains(port)
            && match (&self.hosts, host) {
                (Hosts::Any, _) => true,
                (Hosts::Network(network), Host::Ip(ip)) => network.contains(&ip.to_canonical()),
                (Hosts::Network(_), Host::Name(_)) => false,
                (hosts, host) => hosts.name(host),
            }
    }

    /// Returns whether it names this address, which `host` was found to have. A network includes no special address
    /// unless it lies within its special network. A name stands for its addresses, special ones included: who
    /// writes the name into a list trusts who answers for it.
    pub fn includes(&self, host: &Host, ip: IpAddr, port: u16) -> bool {
        self.ports.contains(port)
            && match &self.hosts {
                Hosts::Any => false,
                Hosts::Network(network) => includes(network, ip),
                hosts => hosts.name(host),
            }
    }

    /// Returns whether it names everything that `other` names.
    pub fn covers(&self, other: &Self) -> bool {
        self.ports.covers(other.ports)
            && match (&self.hosts, &other.hosts) {
                (Hosts::Any, _) => true,
                (Hosts::Network(wide), Hosts::Network(narrow)) => wide.contains(narrow),
                (Hosts::Name(one), Hosts::Name(other)) => one == other,
                (Hosts::Below(suffix), Hosts::Name(name)) => is_below(suffix, name),
                (Hosts::Below(wide), Hosts::Below(narrow)) => narrow.ends_with(&**wide),
                _ => false,
            }
    }
}

impl Hosts {
    fn name(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(wanted), Host::Name(name)) => wanted == name,
            (Self::Below(suffix), Host::Name(name)) => is_below(suffix, name),
            _ => false,
        }
    }
}

fn is_below(suffix: &str, name: &str) -> bool {
    name.len() > suffix.len() && name.ends_with(suffix)
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let parse = || {
            let (hosts, ports) = text.rsplit_once(':')?;
            let ports = ports.parse().ok()?;
            Some(Self { hosts: hosts_of(hosts)?, ports })
        };
        parse().ok_or_else(|| InvalidPattern(text.chars().take(300).collect()))
    }
}

fn hosts_of(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::Any);
    }
    if let Some(suffix) = text.strip_prefix("*.") {
        let Host::Name(name) = Host::new(suffix)? else { return None };
        return Some(Hosts::Below(format!(".{name}").into()));
    }
    // `[2001:db8::]/32` and `[2001:db8::1]` are what `2001:db8::/32` and `2001:db8::1` are.
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.replacen(']', "", 1),
        None if text.contains(':') => return None,
        None => text.to_owned(),
    };
    if let Ok(network) = bare.parse::<IpNet>() {
        return Some(Hosts::Network(network.trunc()));
    }
    match Host::new(text)? {
        Host::Ip(ip) => Some(Hosts::Network(ip.into())),
        Host::Name(name) => Some(Hosts::Name(name)),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
            Hosts::Network(IpNet::V6(network)) => write!(f, "[{}]/{}", network.addr(), network.prefix_len())?,
            Hosts::Network(network) => network.fmt(f)?,
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Below(suffix) => write!(f, "*{suffix}")?,
        }
        write!(f, ":{}", self.ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_are_read_as_they_are_shown() {
        for text in [
            "0.0.0.0/0:443",
            "[2001:db8::]/32:*",
            "db.internal:5432",
            "*.example.org:80-443",
            "10.0.0.1/32:1",
            "*:25",
            "10.0.0.0/8:icmp",
        ] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(pattern("10.1.2.3/8:*").to_string(), "10.0.0.0/8:*");
        assert_eq!(pattern("[::1]:22").to_string(), "[::1]/128:22");
        for wrong in
            ["0.0.0.0/0", ":443", "10.0.0.0/33:1", "a b:1", "x:0", "x:9-8", "2001:db8::/32:443", "*.1.2:3"]
        {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ports_and_icmp_are_apart() {
        let (all, icmp) = (pattern("0.0.0.0/0:*"), pattern("10.0.0.0/8:icmp"));
        assert!(!all.covers(&icmp) && !all.ports().contains(0) && icmp.ports().contains(0));
        assert!(pattern("0.0.0.0/0:icmp").covers(&icmp) && !icmp.ports().contains(1));
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        for (wide, narrow) in [
            ("*:*", "10.0.0.0/8:22"),
            ("*:*", "a.b:1"),
            ("10.0.0.0/8:*", "10.1.0.0/16:22"),
            ("10.0.0.0/8:20-30", "10.0.0.0/8:22"),
            ("*.b:1", "a.b:1"),
            ("*.b:1", "*.a.b:1"),
            ("a.b:1", "a.b:1"),
        ] {
            assert!(pattern(wide).covers(&pattern(narrow)), "{wide} {narrow}");
            assert!(wide == narrow || !pattern(narrow).covers(&pattern(wide)), "{narrow} {wide}");
        }
        for (one, other) in
            [("10.0.0.0/8:22", "11.0.0.0/8:22"), ("*.b:1", "b:1"), ("0.0.0.0/0:1", "a.b:1"), ("*:1", "*:2")]
        {
            assert!(!pattern(one).covers(&pattern(other)), "{one} {other}");
        }
    }
}
