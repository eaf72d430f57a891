//! Everything secret: identities, packet keys, cookies, reset tokens, connection ids and tickets.
//!
//! This module has no randomness of its own: callers pass a generator, so that a seed reproduces a run to the byte.
//! Nothing here prints a secret, except [`Keys::log`], which is meant for a packet dissector.
//!
//! Long-lived secrets are wiped when dropped: by [`Secret`] itself, and by AWS-LC for private keys. Intermediate
//! copies are wiped as well. A cipher's key may remain in freed memory. It is derived from a secret for one
//! generation, and the secret cannot be computed from it.

mod aead;
mod blind;
mod cid;
mod cookie;
mod identity;
mod kdf;
mod keys;
mod packet_keys;
mod register;
mod reset;
mod resumption;
mod ticket;
mod tries;

pub use aead::{Aead, Offer};
pub(crate) use blind::{Blind, Blinded};
pub use cid::CidGenerator;
pub use cookie::{COOKIE_LIFE, Cookie, CookieError, CookieJar};
pub use identity::{Identity, InvalidKey, PublicKey};
pub(crate) use identity::{StaticKey, public_of};
pub use kdf::{MOST_EXPORTED, Secret};
pub use keys::{EarlyOpen, EarlySeal, Keys};
pub use packet_keys::{HeaderKey, OpenKey, SealKey, key_log_line};
pub use register::{Register, Seen};
pub use reset::{ResetKey, ResetToken};
pub use resumption::{Claim, Proof};
pub(crate) use ticket::TicketClaim;
pub use ticket::{PathMemory, TicketError, TicketJar};
pub(crate) use tries::{Tries, Try};
