//! The manner in which a flow's bytes are sent, compared with others of the session.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use whimbrel::Service;

use crate::compress::{DictionaryId, Method};

/// The manner in which a flow's bytes are sent. Unset fields have their defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Manner {
    /// Their priority among all of the session, 0 to 255.
    pub priority: Option<u8>,
    /// The longest time that a datagram may wait to be sent, in whole milliseconds.
    pub lifetime: Option<Duration>,
    /// Their compression, in both directions.
    pub compression: Option<Compression>,
    /// The service of datagrams.
    pub service: Option<Service>,
    /// The most that all flows of a group may send together.
    pub cap: Option<Cap>,
    /// The longest time that a small datagram or write may wait for others to travel with, in whole microseconds.
    pub gather: Option<Duration>,
}

/// The most that the TCP flows of a group may send together, and the most that its datagrams may, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cap {
    /// The group: a number of the near end's choice, the same for all flows of a rule.
    pub group: u64,
    /// Bytes per second, at least 1.
    pub rate: u64,
}

impl Cap {
    /// Returns it as 16 bytes.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        [self.group.to_be_bytes(), self.rate.to_be_bytes()].concat()
    }

    /// Reads it. `None`: it has another length, or allows nothing.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (group, rate) = bytes.split_first_chunk::<8>()?;
        let rate = u64::from_be_bytes(rate.try_into().ok()?);
        (rate > 0).then_some(Self { group: u64::from_be_bytes(*group), rate })
    }
}

/// The compression of a flow's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compression {
    /// The method.
    pub method: Method,
    /// The dictionary. A far end that lacks it compresses without.
    pub dictionary: Option<DictionaryId>,
    /// The bytes of the program that the near end sends before the answer. They come in front of its first piece.
    pub plain: u32,
}

impl Compression {
    /// Returns it as bytes: method, level, bytes in front, and the dictionary if there is one.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.method.codes().to_vec();
        bytes.extend_from_slice(&self.plain.to_be_bytes());
        bytes.extend(self.dictionary.iter().flat_map(|id| id.0));
        bytes
    }

    /// Reads it. `None`: it is of a later version, and cannot be had here.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (method, rest) = bytes.split_first_chunk::<2>()?;
        let (plain, dictionary) = rest.split_first_chunk::<4>()?;
        let dictionary = match dictionary.len() {
            0 => None,
            _ => Some(DictionaryId(dictionary.try_into().ok()?)),
        };
        Some(Self { method: Method::of_codes(*method)?, dictionary, plain: u32::from_be_bytes(*plain) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_comes_back_and_what_is_unknown_is_none() {
        for dictionary in [None, Some(DictionaryId(*b"8 bytes!"))] {
            let compression = Compression { method: "zstd:3".parse().unwrap(), dictionary, plain: 77 };
            let bytes = compression.to_bytes();
            assert_eq!(Compression::from_bytes(&bytes), Some(compression));
            assert_eq!(Compression::from_bytes(&bytes[..bytes.len() - 1]), None);
            assert_eq!(Compression::from_bytes(&[&[9, 1], &bytes[2..]].concat()), None, "a later method");
        }
    }
}
