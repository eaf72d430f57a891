//! What a peer may open here. Without a permit it is nothing.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::ports::Ports;
use super::special::includes;
use crate::protocol::Host;

/// Targets that a peer may open: a network or a name, and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    hosts: Hosts,
    ports: Ports,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Network(IpNet),
    /// One name, whatever its address.
    Name(Box<str>),
    /// All names below this one: it begins with a dot.
    Below(Box<str>),
}

/// A text that is no permit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not say what may be opened: write NETWORK:PORTS, for example 0.0.0.0/0:443, [2001:db8::]/32:*, \
     db.internal:5432 or *.example.org:80-443"
)]
pub struct InvalidPermit(String);

/// All that a peer may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits(Vec<Permit>);

impl Permits {
    /// Permits these.
    pub fn new(permits: impl IntoIterator<Item = Permit>) -> Self {
        Self(permits.into_iter().collect())
    }

    /// Returns whether a peer may open nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a name may be looked up for this port: one of its addresses may be permitted, or it is itself.
    pub fn may_look_up(&self, port: u16) -> bool {
        self.0.iter().any(|permit| permit.ports.contains(port))
    }

    /// Returns whether this address, which `host` was found to have, may be opened. A permit for a name is one for
    /// its addresses, special ones included: who writes the name into the list trusts who answers for it.
    pub fn allow(&self, host: &Host, ip: IpAddr, port: u16) -> bool {
        self.0.iter().any(|permit| permit.ports.contains(port) && permit.hosts.contain(host, ip))
    }
}

impl Hosts {
    fn contain(&self, host: &Host, ip: IpAddr) -> bool {
        match (self, host) {
            (Self::Network(network), _) => includes(network, ip),
            (Self::Name(wanted), Host::Name(name)) => wanted == name,
            (Self::Below(suffix), Host::Name(name)) => name.len() > suffix.len() && name.ends_with(&**suffix),
            (Self::Name(_) | Self::Below(_), Host::Ip(_)) => false,
        }
    }
}

impl FromStr for Permit {
    type Err = InvalidPermit;

    fn from_str(text: &str) -> Result<Self, InvalidPermit> {
        let parse = || {
            let (hosts, ports) = text.rsplit_once(':')?;
            let ports = ports.parse().ok()?;
            Some(Self { hosts: hosts_of(hosts)?, ports })
        };
        parse().ok_or_else(|| InvalidPermit(text.chars().take(300).collect()))
    }
}

fn hosts_of(text: &str) -> Option<Hosts> {
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

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
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

    fn allowed(permits: &[&str], host: &str, ip: &str, port: u16) -> bool {
        let permits = Permits::new(permits.iter().map(|text| text.parse().unwrap()));
        permits.allow(&Host::new(host).unwrap(), ip.parse().unwrap(), port)
    }

    #[test]
    fn permits_are_read_as_they_are_shown() {
        for text in [
            "0.0.0.0/0:443",
            "[2001:db8::]/32:*",
            "db.internal:5432",
            "*.example.org:80-443",
            "10.0.0.1/32:1",
        ] {
            assert_eq!(text.parse::<Permit>().unwrap().to_string(), text);
        }
        assert_eq!("10.1.2.3/8:*".parse::<Permit>().unwrap().to_string(), "10.0.0.0/8:*");
        assert_eq!("[::1]:22".parse::<Permit>().unwrap().to_string(), "[::1]/128:22");
        for wrong in [
            "0.0.0.0/0",
            ":443",
            "10.0.0.0/33:1",
            "a b:1",
            "x:0",
            "x:9-8",
            "2001:db8::/32:443",
            "*:80",
            "*.1.2:3",
        ] {
            assert!(wrong.parse::<Permit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_is_allowed_that_is_not_named() {
        assert!(!allowed(&[], "192.0.2.7", "192.0.2.7", 443));
        assert!(allowed(&["0.0.0.0/0:443"], "192.0.2.7", "192.0.2.7", 443));
        assert!(!allowed(&["0.0.0.0/0:443"], "192.0.2.7", "192.0.2.7", 80));
        assert!(!allowed(&["0.0.0.0/0:443"], "2001:db8::1", "2001:db8::1", 443));
        // A name of this host does not get around the list.
        assert!(!allowed(&["0.0.0.0/0:*"], "localhost", "127.0.0.1", 22));
        assert!(allowed(&["localhost:22"], "localhost", "127.0.0.1", 22));
        assert!(!allowed(&["localhost:22"], "127.0.0.1", "127.0.0.1", 22), "the address is not named");
        assert!(allowed(&["*.example.org:80"], "a.b.example.org", "192.0.2.7", 80));
        assert!(!allowed(&["*.example.org:80"], "example.org", "192.0.2.7", 80));
        assert!(!allowed(&["*.example.org:80"], "badexample.org", "192.0.2.7", 80));
    }
}
