//! URLs of the form `whimbrel://KEY@host:port`: the peer to connect to, and the key that authenticates it.

use std::fmt;
use std::str::FromStr;

use crate::crypto::PublicKey;

/// The port used where the URL names none.
pub const DEFAULT_PORT: u16 = 4433;

/// A peer's address. Without KEY, the peer's key must be known otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The peer's public key, base64url without padding, 43 characters.
    pub key: Option<PublicKey>,
    /// A host name or an address, without the brackets that the text has around an IPv6 address. See [`Url::is_host`].
    pub host: String,
    /// The UDP port.
    pub port: u16,
}

/// A text that is not a Whimbrel URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not whimbrel://KEY@host:port: {what}")]
pub struct UrlError {
    /// The text given.
    pub url: String,
    /// The mistake in it.
    pub what: &'static str,
}

impl Url {
    /// Returns whether a URL may name this host: it is not empty, and has no white space, control character or `#`.
    /// Such characters are part of no name or address, and they mean something in files of one peer a line.
    pub fn is_host(host: &str) -> bool {
        let is_foreign = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '#';
        !host.is_empty() && !host.contains(is_foreign)
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let error = |what| UrlError { url: url.to_owned(), what };
        let rest = url.strip_prefix("whimbrel://").ok_or_else(|| error("it must begin with whimbrel://"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (key, place) = match rest.split_once('@') {
            Some((key, place)) => (
                Some(key.parse().map_err(|_| {
                    error("the key is not 43 characters of base64url, or is not a valid key")
                })?),
                place,
            ),
            None => (None, rest),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|place| place.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => {
                (host, Some(port.strip_prefix(':').ok_or_else(|| error("after ] comes :port"))?))
            }
            None => match place.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err(error("an IPv6 address goes in brackets"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        if host.is_empty() {
            return Err(error("the host is missing"));
        }
        if !Self::is_host(host) {
            return Err(error("a host has no space, line break, control character or #"));
        }
        let port = port.map_or(Ok(DEFAULT_PORT), |port| match port.parse() {
            Ok(0) => Err(error("port 0 means any free port, so nobody can be reached there")),
            Ok(port) => Ok(port),
            Err(_) => Err(error("the port is not a number below 65536")),
        })?;
        Ok(Self { key, host: host.to_owned(), port })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whimbrel://")?;
        if let Some(key) = &self.key {
            write!(f, "{key}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo";

    #[test]
    fn urls_round_trip() {
        for url in [
            format!("whimbrel://{KEY}@example.org:4433"),
            format!("whimbrel://{KEY}@[2001:db8::1]:9"),
            "whimbrel://192.0.2.1:77".to_owned(),
        ] {
            assert_eq!(url.parse::<Url>().unwrap().to_string(), url);
        }
        assert_eq!("whimbrel://host".parse::<Url>().unwrap().port, DEFAULT_PORT);
    }

    /// Tries every single insertion, replacement and cut of these URLs.
    #[test]
    fn what_can_be_read_is_written_so_that_it_reads_the_same() {
        let mut read = 0;
        for url in [format!("whimbrel://{KEY}@[2001:db8::1]:9"), "whimbrel://example.org:4433/".to_owned()] {
            let changed = |at: usize| {
                let (before, behind) = url.split_at(at);
                let put = "[]:@/+ 0aé".chars().map(move |put| format!("{before}{put}{behind}"));
                let replaced = "[]:@/+ 0aé".chars().map(move |put| format!("{before}{put}{}", &behind[1..]));
                put.chain(replaced).chain([before.to_owned(), format!("{before}{}", &behind[1..])])
            };
            for text in (0..url.len()).flat_map(changed) {
                if let Ok(url) = text.parse::<Url>() {
                    assert_eq!(url.to_string().parse(), Ok(url), "{text}");
                    read += 1;
                }
            }
        }
        assert!(read > 100, "{read}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (url, what) in [
            ("http://x", "must begin"),
            ("whimbrel://short@x:1", "key"),
            ("whimbrel://:1", "host"),
            ("whimbrel://x:99999", "port"),
            ("whimbrel://x:0", "port 0"),
            ("whimbrel://2001:db8::1", "brackets"),
            ("whimbrel://some host:1", "no space"),
            ("whimbrel://host :1", "no space"),
            ("whimbrel://#host:1", "or #"),
            ("whimbrel://[evil.example KEY\nbank.example:4433 KEY\n#]:7", "line break"),
            ("whimbrel://[::1\u{2028}]:7", "line break"),
            ("whimbrel://ho\u{1b}st", "control character"),
        ] {
            let error = url.parse::<Url>().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
