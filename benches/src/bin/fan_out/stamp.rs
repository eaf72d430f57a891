//! The payload: when the message was due, and its number.

use std::sync::OnceLock;
use std::time::Instant;

/// Bytes of a payload.
pub(crate) const LENGTH: usize = 50;

/// Nanoseconds since the program first asked.
pub(crate) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Writes a payload.
pub(crate) fn payload(due: u64, number: u64) -> [u8; LENGTH] {
    let mut bytes = [b'.'; LENGTH];
    bytes[..8].copy_from_slice(&due.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Reads when the message was due, and its number. `None` if it is no payload of ours.
pub(crate) fn read(payload: &[u8]) -> Option<(u64, u64)> {
    if payload.len() != LENGTH {
        return None;
    }
    let number = |at: usize| Some(u64::from_le_bytes(payload[at..at + 8].try_into().ok()?));
    Some((number(0)?, number(8)?))
}
