//! Lists of texts in a file: each entry is refused where it stands.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// The most characters of an entry that a message shows.
const SHOWN: usize = 300;

/// A list of texts, or one text alone. A number is read as if it were text.
pub(crate) struct List<R> {
    /// Reads one entry, or says what to write.
    pub(crate) read: R,
    /// Whether it may have no entry.
    pub(crate) may_be_empty: bool,
}

impl<R> List<R> {
    pub(crate) fn read<'de, T, D>(self, deserializer: D) -> Result<Vec<T>, D::Error>
    where
        R: Fn(&str) -> Result<T, String>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T, R: Fn(&str) -> Result<T, String>> Visitor<'de> for List<R> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of texts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![(self.read)(text).map_err(E::custom)?])
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = entries.next_element_seed(Entry(&self.read))? {
            all.push(entry);
        }
        // Without an entry, a condition would hold for everything.
        if all.is_empty() && !self.may_be_empty {
            return Err(A::Error::custom(
                "the list is empty: write at least one entry, or leave the setting out, which stands for all",
            ));
        }
        Ok(all)
    }
}

/// One entry of a list.
struct Entry<'a, R>(&'a R);

impl<'de, T, R: Fn(&str) -> Result<T, String>> DeserializeSeed<'de> for Entry<'_, R> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T, R: Fn(&str) -> Result<T, String>> Visitor<'_> for Entry<'_, R> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text in quotation marks")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Bool(flag), &self))
    }
}

/// Reads a network.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| match text.parse::<IpAddr>() {
        Ok(ip) => format!("`{ip}` is an address, not a network: write {}", IpNet::from(ip)),
        Err(_) => format!("`{}` is not a network: write for example 10.0.0.0/8 or fd00::/8", shown(text)),
    })
}

/// Reads a multicast group with its port.
pub(crate) fn group(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "`{}` is not a group with a port: write for example 239.1.2.3:5000 or [ff15::7]:5000",
            shown(text)
        )
    })
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
