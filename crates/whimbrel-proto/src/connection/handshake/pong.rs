//! The server's answer to PING.

use std::time::Duration;

use bytes::Bytes;

use crate::Time;
use crate::connection::packet::lengths::PONG_WAIT;

/// PONG, and when it is repeated.
pub(in crate::connection) struct Pong {
    pub(in crate::connection) packet: Option<Bytes>,
    pub(in crate::connection) due: bool,
    /// How often it was sent.
    pub(in crate::connection) sent: u8,
    pub(in crate::connection) at: Time,
    /// The wait from `at` until early packets trigger its next repetition.
    pub(in crate::connection) wait: Duration,
}

impl Pong {
    pub(in crate::connection) fn new(now: Time) -> Self {
        Self { packet: None, due: false, sent: 0, at: now, wait: PONG_WAIT }
    }
}
