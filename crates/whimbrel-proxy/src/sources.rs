//! The setting `source` of a peer: in whose names it may speak here.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::as_text;

/// The networks of programs in whose names a peer may speak. In a file: `true` for all, `false` for none, or networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(Vec<IpNet>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "true, false, or networks such as [\"10.0.0.0/8\"]")]
enum Said {
    All(bool),
    Networks(#[serde(with = "as_text::networks")] Vec<IpNet>),
}

impl Sources {
    /// Returns the networks.
    pub fn networks(&self) -> &[IpNet] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Sources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Said::deserialize(deserializer)? {
            Said::All(false) => Vec::new(),
            Said::All(true) => vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
            Said::Networks(networks) => networks,
        }))
    }
}

impl Serialize for Sources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_text::list::serialize(&self.0, serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Permits;

    fn read(text: &str) -> Result<Permits, String> {
        let parsed: Result<Sources, _> = serde_json::from_str(text);
        let sources = parsed.map_err(|error| error.to_string())?;
        Ok(Permits::default().speaking_for(sources.networks().iter().copied()))
    }

    #[test]
    fn a_peer_speaks_for_whom_the_file_says_and_never_for_this_host() {
        let speaks = |text: &str, ip: &str| read(text).unwrap().speaks_for(ip.parse().unwrap());
        for (text, ip, may) in [
            ("false", "10.1.0.2", false),
            ("true", "10.1.0.2", true),
            ("true", "2001:db8::1", true),
            ("true", "127.0.0.1", false),
            ("true", "::1", false),
            ("true", "::ffff:127.0.0.1", false),
            ("true", "169.254.64.1", false),
            ("true", "fe80::1", false),
            ("true", "224.0.0.1", false),
            ("\"10.1.0.0/16\"", "10.1.0.2", true),
            ("[\"10.1.0.0/16\", \"fd01::/16\"]", "fd01::2", true),
            ("[\"10.1.0.0/16\"]", "10.2.0.2", false),
            ("[\"10.1.0.0/16\"]", "::ffff:10.1.0.2", true),
        ] {
            assert_eq!(speaks(text, ip), may, "{text} {ip}");
        }
        assert!(!read("false").unwrap().speaks() && read("true").unwrap().speaks());
        let error = read("\"10.1.0.0/40\"").unwrap_err();
        assert!(error.contains("true, false, or networks"), "{error}");
    }
}
