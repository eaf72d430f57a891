//! The payload: when the message was due, its step, its publisher and its number.

use std::sync::OnceLock;
use std::time::Instant;

/// Bytes of a payload.
pub(crate) const LENGTH: usize = 50;

/// The marks of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// When it was due, nanoseconds since the program first asked.
    pub(crate) due: u64,
    pub(crate) step: u32,
    pub(crate) publisher: u32,
    /// Its number at the publisher.
    pub(crate) number: u64,
}

/// Nanoseconds since the program first asked.
pub(crate) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl Stamp {
    /// The payload with this stamp.
    pub(crate) fn payload(&self) -> [u8; LENGTH] {
        let mut bytes = [b'.'; LENGTH];
        bytes[..8].copy_from_slice(&self.due.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.step.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.publisher.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Reads a payload. `None` if it is none of ours.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        if payload.len() != LENGTH {
            return None;
        }
        let long = |at: usize| Some(u64::from_le_bytes(payload[at..at + 8].try_into().ok()?));
        let short = |at: usize| Some(u32::from_le_bytes(payload[at..at + 4].try_into().ok()?));
        Some(Self { due: long(0)?, step: short(8)?, publisher: short(12)?, number: long(16)? })
    }
}
