//! The settings of multicast.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::text::as_text;

/// The most groups, and the most interfaces. Each pair has a socket.
const MOST_GROUPS: usize = 64;
const MOST_INTERFACES: usize = 16;

/// Multicast: which groups are carried, and between which links and peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MulticastSettings {
    /// The interfaces on whose links groups are joined, and to which those of peers are sent on.
    pub interfaces: Vec<String>,
    /// The groups that are carried to peers, with their ports. Default: none; peers' are still sent on.
    #[serde(with = "as_text::groups")]
    pub groups: Vec<SocketAddr>,
    /// The names of the peers that get them. Default: all peers.
    #[serde(with = "as_text::some")]
    pub peers: Vec<String>,
    /// The TTL, or hop limit, of what is sent on. Default 1: it stays on the link.
    pub ttl: u8,
}

/// A mistake in these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MulticastMistake {
    /// There is no link.
    #[error("[multicast] names no interfaces: write for example interfaces = [\"lan0\"]")]
    NoInterface,
    /// Nobody can join it.
    #[error(
        "[multicast] groups: `{0}` is no group with a port: write for example 239.1.2.3:5000 or [ff15::7]:5000"
    )]
    NoGroup(SocketAddr),
    /// It would reach nobody.
    #[error("[multicast] ttl: it may not be 0, with which nothing leaves this host")]
    Ttl,
    /// There are too many.
    #[error("[multicast] has {0} groups on {1} interfaces: 64 on 16 are the most")]
    TooMany(usize, usize),
    /// A peer does not exist.
    #[error("[multicast] names the peer `{0}`, but no [[peer]] has that `name`: correct it, or add the peer")]
    NoSuchPeer(String),
}

impl MulticastMistake {
    /// Returns the setting at fault.
    pub(crate) fn setting(&self) -> &'static str {
        match self {
            Self::NoInterface => "interfaces",
            Self::NoGroup(_) | Self::TooMany(..) => "groups",
            Self::Ttl => "ttl",
            Self::NoSuchPeer(_) => "peers",
        }
    }
}

/// Why groups cannot be joined. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum MulticastError {
    /// Another system.
    #[error("[multicast] works on Linux only: leave it out here")]
    NotLinux,
    /// There is no such interface.
    #[error("[multicast] there is no interface `{0}`, or it has no address: `ip address` lists them")]
    NoInterface(String),
    /// The system says no.
    #[error("[multicast] joining {group} on `{interface}` failed: {error}")]
    Join {
        /// The group.
        group: SocketAddr,
        /// The interface.
        interface: String,
        /// The system's error.
        error: io::Error,
    },
    /// The system says no.
    #[error("[multicast] the addresses of this host cannot be listed: {0}")]
    System(#[from] io::Error),
}

impl Default for MulticastSettings {
    fn default() -> Self {
        Self { interfaces: Vec::new(), groups: Vec::new(), peers: Vec::new(), ttl: 1 }
    }
}

impl MulticastSettings {
    /// Checks what no single line shows. `is_peer` says whether there is a peer of that name.
    ///
    /// # Errors
    /// See [`MulticastMistake`].
    pub fn check(&self, is_peer: impl Fn(&str) -> bool) -> Result<(), MulticastMistake> {
        let (groups, interfaces) = (self.groups.len(), self.interfaces.len());
        if interfaces == 0 {
            return Err(MulticastMistake::NoInterface);
        }
        if groups > MOST_GROUPS || interfaces > MOST_INTERFACES {
            return Err(MulticastMistake::TooMany(groups, interfaces));
        }
        let is_group = |group: &&SocketAddr| group.ip().is_multicast() && group.port() > 0;
        if let Some(wrong) = self.groups.iter().find(|group| !is_group(group)) {
            return Err(MulticastMistake::NoGroup(*wrong));
        }
        if self.ttl == 0 {
            return Err(MulticastMistake::Ttl);
        }
        match self.peers.iter().find(|name| !is_peer(name)) {
            Some(name) => Err(MulticastMistake::NoSuchPeer(name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let good = MulticastSettings {
            interfaces: vec!["lan0".into()],
            groups: vec!["239.1.2.3:5000".parse().unwrap(), "[ff02::fb]:5353".parse().unwrap()],
            ..Default::default()
        };
        let check = |settings: MulticastSettings| settings.check(|name| name == "far");
        check(good.clone()).unwrap();
        check(MulticastSettings { peers: vec!["far".into()], ..good.clone() }).unwrap();
        let groups = |text: &str| vec![text.parse().unwrap()];
        for (wrong, part) in [
            (MulticastSettings::default(), "no interfaces"),
            (
                MulticastSettings { groups: groups("10.0.0.1:5000"), ..good.clone() },
                "`10.0.0.1:5000` is no group",
            ),
            (MulticastSettings { groups: groups("239.1.2.3:0"), ..good.clone() }, "is no group"),
            (MulticastSettings { ttl: 0, ..good.clone() }, "may not be 0"),
            (MulticastSettings { peers: vec!["x".into()], ..good.clone() }, "the peer `x`"),
            (MulticastSettings { groups: groups("239.1.2.3:1").repeat(65), ..good }, "65 groups"),
        ] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
