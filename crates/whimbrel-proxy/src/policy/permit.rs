//! The targets that a peer may open here. Without a permit it may open none.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::pattern::{InvalidPattern, Pattern};
use super::special::is_special;
use crate::protocol::Host;

/// Targets that a peer may open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit(Pattern);

/// A text that is no permit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPermit {
    /// It does not name targets.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
    /// It names every host.
    #[error(
        "`{0}` would also permit this host itself: write 0.0.0.0/0:PORTS and [::]/0:PORTS, which do not include it"
    )]
    Everything(String),
}

/// All that a peer may open, and which of these targets learn whose connection it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    all: Vec<Permit>,
    introduced: Vec<Pattern>,
    sources: Vec<IpNet>,
}

impl Permits {
    /// Permits these.
    pub fn new(permits: impl IntoIterator<Item = Permit>) -> Self {
        Self { all: permits.into_iter().collect(), introduced: Vec::new(), sources: Vec::new() }
    }

    /// Returns the same permit, where these targets learn whose connection it is, by the PROXY protocol.
    #[must_use]
    pub fn introducing(self, targets: impl IntoIterator<Item = Pattern>) -> Self {
        Self { introduced: targets.into_iter().collect(), ..self }
    }

    /// Returns the same permit, where connections and datagrams of programs in these networks are in their names.
    #[must_use]
    pub fn speaking_for(self, sources: impl IntoIterator<Item = IpNet>) -> Self {
        Self { sources: sources.into_iter().collect(), ..self }
    }

    /// Returns whether the peer may speak for anybody.
    pub fn speaks(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Returns whether the peer may speak for a program with this address: not for a host itself, its link or a group, whatever
    /// the networks say.
    pub fn speaks_for(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        !is_special(ip) && self.sources.iter().any(|network| network.contains(&ip))
    }

    /// Returns whether a target, by this address, learns whose connection it is.
    pub fn introduce(&self, host: &Host, ip: IpAddr, port: u16) -> bool {
        let of_address = Host::from(ip);
        self.introduced.iter().any(|target| target.matches(host, port) || target.matches(&of_address, port))
    }

    /// Returns whether a name may be looked up for this port: one of its addresses may be permitted, or it is itself.
    pub fn may_look_up(&self, port: u16) -> bool {
        self.all.iter().any(|permit| permit.0.ports().contains(port))
    }

    /// Returns whether this address, which `host` was found to have, may be opened: see [`Pattern::includes`].
    pub fn allow(&self, host: &Host, ip: IpAddr, port: u16) -> bool {
        self.all.iter().any(|permit| permit.0.includes(host, ip, port))
    }
}

impl FromStr for Permit {
    type Err = InvalidPermit;

    fn from_str(text: &str) -> Result<Self, InvalidPermit> {
        if text.starts_with("*:") {
            return Err(InvalidPermit::Everything(text.chars().take(300).collect()));
        }
        Ok(Self(text.parse()?))
    }
}

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
    fn a_permit_for_every_host_is_refused() {
        assert_eq!("*:80".parse::<Permit>(), Err(InvalidPermit::Everything("*:80".to_owned())));
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
