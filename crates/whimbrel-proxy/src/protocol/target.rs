//! The target of a flow.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A host, by address or by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address. IPv4 addresses in IPv6 form count as IPv4.
    Ip(IpAddr),
    /// A name that the far end looks up, in lower case and without a final dot.
    Name(Box<str>),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port; 0 for ICMP, which has none.
    pub port: u16,
}

/// A text that names no host and port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not HOST:PORT: write for example example.org:443, 192.0.2.7:53 or [2001:db8::7]:22")]
pub struct InvalidTarget(String);

/// The length limit of names (RFC 1035 section 2.3.4), without a final dot.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

impl Host {
    /// Creates a host of this address or name. `None`: it cannot be a name.
    pub fn new(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(ip) = bare {
            return ip.parse::<Ipv6Addr>().ok().map(|ip| ip.to_canonical().into());
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Some(ip.to_canonical().into());
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        // What looks like an address but is none would be looked up in vain, or be taken for one by some resolver.
        let is_number =
            name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        let is_name = name.len() <= LONGEST_NAME && !is_number && name.split('.').all(is_label);
        is_name.then(|| Self::Name(name.to_ascii_lowercase().into()))
    }
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().into(), port: address.port() }
    }
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let parse = || {
            let (host, port) = text.rsplit_once(':')?;
            let port = port.parse().ok().filter(|port| *port > 0)?;
            // An IPv6 address needs brackets: where would it end?
            let host = if host.contains(':') && !host.starts_with('[') { None } else { Host::new(host) };
            Some(Self { host: host?, port })
        };
        parse().ok_or_else(|| InvalidTarget(text.chars().take(300).collect()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            0 => self.host.fmt(f),
            port => write!(f, "{}:{port}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, shown) in [
            ("Example.ORG.:443", "example.org:443"),
            ("192.0.2.7:53", "192.0.2.7:53"),
            ("[2001:db8::7]:22", "[2001:db8::7]:22"),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
            ("_sip.a-b.example:1", "_sip.a-b.example:1"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), shown);
        }
        for wrong in [
            "example.org",
            ":80",
            "example.org:0",
            "example.org:65536",
            "2001:db8::7:22",
            "a..b:1",
            "a b:1",
            "127.1:80",
            "0x7f.1:80",
            "1:2:3",
            "a\n:1",
            "[example.org]:1",
            &format!("{}:1", "a".repeat(64)),
            &format!("{}a:1", "a.".repeat(150)),
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
