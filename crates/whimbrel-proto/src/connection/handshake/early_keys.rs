//! Keys for early data, which travels with the handshake.

use crate::Time;
use crate::crypto::{EarlyOpen, EarlySeal};

/// The keys for early data: a client seals with `seal`, a server opens with `open`.
#[derive(Default)]
pub(in crate::connection) struct EarlyKeys {
    pub(in crate::connection) seal: Option<Box<EarlySeal>>,
    pub(in crate::connection) open: Option<Box<EarlyOpen>>,
    /// Until when packets sealed under them may still arrive.
    pub(in crate::connection) until: Option<Time>,
}
