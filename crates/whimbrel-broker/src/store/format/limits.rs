//! The lengths of the format, bytes, and its version.

/// The version of the format.
pub(in crate::store) const VERSION: u16 = 1;
/// The length of a segment's opening, bytes.
pub(in crate::store) const OPENING: u32 = 40;
/// The length of a record's head, bytes.
pub(in crate::store) const HEAD: usize = 20;
/// The longest body of a record, bytes: a message of 16 MiB and its names, or a segment's index.
pub(in crate::store) const LONGEST_BODY: usize = 32 << 20;
