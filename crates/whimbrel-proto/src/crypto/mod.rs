//! Everything secret: identities, packet keys, cookies, reset tokens, connection ids, tickets.
//!
//! No randomness of its own: whoever needs some is handed a generator, so that a seed reproduces a run to the
//! byte. Nothing here prints a secret; the one way out is [`Keys::log`], for a packet dissector. What is long-lived
//! is wiped when it is let go: [`Secret`] does so itself, AWS-LC with private keys, and so is what stood on the way to them. The key of a cipher stays where its memory was; it
//! is derived from a secret, for one generation, and nothing leads back from it.

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
pub(crate) use ticket::Claim as TicketClaim;
pub use ticket::{PathMemory, TicketError, TicketJar};
pub(crate) use tries::{Tries, Try};
