//! Limits of properties.

/// The largest number of properties of a message.
pub const MAX_PROPERTIES: usize = 64;
/// The longest name of a property in bytes.
pub const MAX_NAME_LEN: usize = 128;
/// The most bytes that all properties of a message take on the wire.
pub const MAX_PROPERTIES_LEN: usize = 16_383;
