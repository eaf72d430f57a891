//! Notices for people about an endpoint that works.

use std::fmt;
use std::io;
use std::path::PathBuf;

use whimbrel::{PublicKey, Url};

/// Something that the people who run a program should know, and that is no error. Its text is one sentence for them.
/// Functions that have notices take a function to tell them to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// A listener has no key file, so its key is another one after a restart.
    TemporaryKey,
    /// A listener is bound to all addresses. Its URL names loopback, which works on this machine only.
    AllAddresses,
    /// The reset salt beside the key cannot be used, so peers notice a restart of this listener late.
    SaltUnusable {
        /// The file.
        path: PathBuf,
        /// Why it cannot be used.
        error: io::Error,
    },
    /// Others can read this file of known peers.
    PeersReadable(PathBuf),
    /// A peer was trusted on first use.
    Trusted {
        /// The peer's URL.
        url: Url,
        /// Its key, which is required from now on.
        key: PublicKey,
        /// The file that remembers it.
        path: PathBuf,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TemporaryKey => {
                f.write_str("using a key for this run only; `whimbrel key new` makes one that stays")
            }
            Self::AllAddresses => f.write_str(
                "listening on all addresses: other machines need a URL with a name or address of this host",
            ),
            Self::SaltUnusable { path, error } => {
                write!(f, "cannot use {}: {error}; peers will notice a restart late", path.display())
            }
            Self::PeersReadable(path) => {
                let path = path.display();
                write!(f, "others can read which peers you know in {path}: run `chmod 600 {path}`")
            }
            Self::Trusted { url, key, path } => {
                write!(f, "trusting {key} for {url} from now on; it is in {}", path.display())
            }
        }
    }
}
