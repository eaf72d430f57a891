//! Keys of data that goes with the handshake.

use crate::Time;
use crate::crypto::{EarlyOpen, EarlySeal};

/// See the module.
#[derive(Default)]
pub(in crate::connection) struct EarlyKeys {
    pub(in crate::connection) seal: Option<Box<EarlySeal>>,
    pub(in crate::connection) open: Option<Box<EarlyOpen>>,
    /// Until then packets sealed under them may still arrive.
    pub(in crate::connection) until: Option<Time>,
}
