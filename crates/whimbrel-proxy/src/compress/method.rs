//! The compression of bytes: an algorithm and a level.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Deflate (RFC 1951), without a header.
    Zlib,
    /// LZMA2, without a header: shrinks most, and takes most time.
    Xz,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// An algorithm and a level, written as `zstd:3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Method {
    algorithm: Algorithm,
    level: u8,
}

/// A text that is no method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a compression: write zstd:1 to zstd:9, zlib:1 to zlib:9, or xz:1 to xz:6")]
pub struct InvalidMethod(String);

impl Algorithm {
    const ALL: [Self; 3] = [Self::Zlib, Self::Xz, Self::Zstd];

    fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }

    /// The highest level. What lies above takes much more time, and hardly shrinks small windows further.
    fn highest(self) -> u8 {
        match self {
            Self::Zlib | Self::Zstd => 9,
            Self::Xz => 6,
        }
    }

    /// The level if none is given: the best for small records at little cost.
    fn usual(self) -> u8 {
        match self {
            Self::Zlib | Self::Xz => 1,
            Self::Zstd => 3,
        }
    }
}

impl Method {
    /// Returns the method of an algorithm and a level, unless there is no such level.
    pub fn new(algorithm: Algorithm, level: u8) -> Option<Self> {
        (1..=algorithm.highest()).contains(&level).then_some(Self { algorithm, level })
    }

    /// Returns the method of two bytes of the protocol, if it is known here.
    pub fn of_codes([algorithm, level]: [u8; 2]) -> Option<Self> {
        let algorithm = Algorithm::ALL.get(usize::from(algorithm).checked_sub(1)?)?;
        Self::new(*algorithm, level)
    }

    /// Returns the two bytes of the protocol that stand for it.
    pub fn codes(self) -> [u8; 2] {
        let at = Algorithm::ALL.iter().position(|algorithm| *algorithm == self.algorithm).unwrap_or(0);
        [at as u8 + 1, self.level]
    }

    /// Returns the algorithm.
    pub fn algorithm(self) -> Algorithm {
        self.algorithm
    }

    /// Returns the level.
    pub fn level(self) -> u8 {
        self.level
    }

    /// Returns whether it can use a dictionary.
    pub fn takes_dictionary(self) -> bool {
        self.algorithm == Algorithm::Zstd
    }

    /// Returns the bytes of memory with which a flow's two contexts are counted at one end, with a dictionary of so many bytes, of
    /// which the encoder has a copy; 0: none. With Zstandard, a flow that sends much in both directions takes up to a
    /// sixth more.
    pub fn memory(self, dictionary: usize) -> usize {
        match (self.algorithm, dictionary) {
            (Algorithm::Zlib, _) => 384 << 10,
            (Algorithm::Xz, _) => 1_536 << 10,
            (Algorithm::Zstd, 0) => 112 << 10,
            (Algorithm::Zstd, dictionary) => (128 << 10) + dictionary,
        }
    }
}

impl FromStr for Method {
    type Err = InvalidMethod;

    fn from_str(text: &str) -> Result<Self, InvalidMethod> {
        let (name, level) =
            text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level.parse::<u8>().ok())));
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        let method = algorithm.and_then(|algorithm| match level {
            None => Self::new(algorithm, algorithm.usual()),
            Some(level) => Self::new(algorithm, level?),
        });
        method.ok_or_else(|| InvalidMethod(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for Method {
    type Error = InvalidMethod;

    fn try_from(text: String) -> Result<Self, InvalidMethod> {
        text.parse()
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.to_string()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_read_and_come_back() {
        for (text, shown) in [("zstd:3", "zstd:3"), ("zstd", "zstd:3"), ("xz:6", "xz:6"), ("zlib", "zlib:1")]
        {
            let method: Method = text.parse().unwrap();
            assert_eq!(
                (method.to_string().as_str(), Method::of_codes(method.codes())),
                (shown, Some(method))
            );
        }
        for wrong in ["", "zstd:0", "zstd:10", "xz:7", "gzip", "zstd:", "zstd:3:3", "Zstd"] {
            assert!(wrong.parse::<Method>().is_err(), "{wrong}");
        }
        for unknown in [[0, 1], [4, 1], [255, 3], [3, 0], [3, 200]] {
            assert_eq!(Method::of_codes(unknown), None, "{unknown:?}");
        }
    }
}
