//! Our key and the keys of peers: the key file, the known peers, and `whimbrel key`.

mod command;
mod file;
mod known_peers;
mod places;
mod psk;
mod salt;

pub use command::KeyCommand;
pub use file::{KeyFileError, load, own_or_temporary, save_new};
pub use known_peers::{KnownPeers, KnownPeersError};
pub use places::{default_key_file, default_known_peers_file};
pub(crate) use psk::PskOptions;
pub(crate) use salt::ResetSalt;
