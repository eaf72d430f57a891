//! The URL of a peer, with what carries the session.

use std::fmt;
use std::str::FromStr;

use whimbrel::{Url, UrlError};

use super::kind::Connector;

/// The prefix of the URL of a peer that is dialled over TCP.
const TCP: &str = "whimbrel+tcp://";
const WHIMBREL: &str = "whimbrel://";

/// The URL at which a peer is dialled: `whimbrel://KEY@HOST:PORT`, or `whimbrel+tcp://KEY@HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerUrl {
    /// The connector that carries the session.
    pub connector: Connector,
    /// The key, the host and the port.
    pub url: Url,
}

/// A text that is no URL of a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}{}", if *.is_tcp { " (or, over TCP, whimbrel+tcp://KEY@host:port)" } else { "" })]
pub struct PeerUrlError {
    error: UrlError,
    is_tcp: bool,
}

impl From<Url> for PeerUrl {
    fn from(url: Url) -> Self {
        Self { connector: Connector::Whimbrel, url }
    }
}

impl FromStr for PeerUrl {
    type Err = PeerUrlError;

    fn from_str(text: &str) -> Result<Self, PeerUrlError> {
        let (connector, plain) = match text.strip_prefix(TCP) {
            Some(rest) => (Connector::Tcp, format!("{WHIMBREL}{rest}")),
            None => (Connector::Whimbrel, text.to_owned()),
        };
        let is_tcp = connector == Connector::Tcp;
        let failed =
            |error: UrlError| PeerUrlError { error: UrlError { url: text.to_owned(), ..error }, is_tcp };
        Ok(Self { connector, url: plain.parse().map_err(failed)? })
    }
}

impl fmt::Display for PeerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.to_string();
        match self.connector {
            Connector::Whimbrel => f.write_str(&url),
            Connector::Tcp => write!(f, "{TCP}{}", url.strip_prefix(WHIMBREL).unwrap_or(&url)),
        }
    }
}

impl serde::Serialize for PeerUrl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for PeerUrl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_what_carries_the_session() {
        let key = whimbrel::new_identity().public();
        for (connector, scheme) in [(Connector::Whimbrel, "whimbrel"), (Connector::Tcp, "whimbrel+tcp")] {
            let text = format!("{scheme}://{key}@host:4433");
            let url: PeerUrl = text.parse().unwrap();
            assert_eq!((url.connector, url.to_string()), (connector, text));
        }
        let error = "whimbrel+tcp://nobody@host:1".parse::<PeerUrl>().unwrap_err().to_string();
        assert!(error.starts_with("\"whimbrel+tcp://nobody@host:1\" is not"), "{error}");
    }
}
