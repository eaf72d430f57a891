//! The payload of a message: its tenth of the selector's values, its number there, and when it was due.

/// The parts into which the selector's values are divided. Each subscriber wants one.
pub(crate) const TENTHS: usize = 10;
/// The fewest bytes of a payload.
pub(crate) const SHORTEST: usize = 17;

/// The marks of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) tenth: u8,
    /// Its number among those of its tenth, from 0.
    pub(crate) number: u64,
    /// When it was due, nanoseconds of the load's clock.
    pub(crate) due: u64,
}

impl Stamp {
    /// A payload of this many bytes with the marks.
    pub(crate) fn payload(&self, size: usize) -> Vec<u8> {
        let mut bytes = vec![b'.'; size.max(SHORTEST)];
        bytes[0] = self.tenth;
        bytes[1..9].copy_from_slice(&self.number.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.due.to_le_bytes());
        bytes
    }

    /// Reads a payload. `None` if it is none of ours.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_le_bytes(payload.get(at..at + 8)?.try_into().ok()?));
        let tenth = *payload.first().filter(|tenth| usize::from(**tenth) < TENTHS)?;
        Some(Self { tenth, number: long(1)?, due: long(9)? })
    }
}
