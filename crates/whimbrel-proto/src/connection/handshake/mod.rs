//! The handshake, its keys, and tickets.

pub(in crate::connection) mod alternatives;
pub(in crate::connection) mod connecting;
pub(in crate::connection) mod early;
pub(in crate::connection) mod early_keys;
pub(in crate::connection) mod key_log;
pub(in crate::connection) mod key_logging;
pub(in crate::connection) mod keys;
pub(in crate::connection) mod opening;
pub(in crate::connection) mod peer;
pub(in crate::connection) mod pong;
pub(in crate::connection) mod ticketing;
pub(in crate::connection) mod tickets;
