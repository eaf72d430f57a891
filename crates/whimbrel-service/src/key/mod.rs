//! Keys in files: an endpoint's own key, the keys of peers that were trusted on first use, and pre-shared keys.
//!
//! All these files are text, are created with mode 0600, and are the same for every part of Whimbrel.
//!
//! | file | content | its place, unless another is named |
//! |---|---|---|
//! | key | `whimbrel-secret-key ` and 64 hexadecimal digits | [`default_key_file`] |
//! | known peers | a line `host:port KEY` for each peer; `#` begins a comment | [`default_known_peers_file`] |
//! | pre-shared key | 64 hexadecimal digits | none |
//! | reset salt | `whimbrel-reset-salt ` and 64 hexadecimal digits | `KEY.salt-ADDRESS-PORT`, beside the key |
//!
//! [`ListenOptions`](crate::ListenOptions) makes and locks the reset salt.

mod file;
mod known_peers;
mod places;
mod psk;
mod salt;

pub use file::{KeyFileError, load, own_or_new, own_or_temporary, save_new, save_new_with_folders};
pub use known_peers::{KnownPeers, KnownPeersError};
pub use places::{NoPlace, NoStatePlace, default_key_file, default_known_peers_file, default_state_folder};
pub use psk::{PskError, read_psk, save_new_psk};
pub(crate) use salt::ResetSalt;
pub use salt::release_reset_salts;
