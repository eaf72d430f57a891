//! Limits of a message.

/// The longest key, bytes.
pub const LONGEST_KEY: usize = 1_024;
/// The longest encoded message, bytes.
pub const LONGEST_MESSAGE: usize = 16 << 20;
