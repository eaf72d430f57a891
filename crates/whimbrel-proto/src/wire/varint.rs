//! Variable-length integers (RFC 9000 section 16): 1, 2, 4 or 8 bytes, up to 2^62 - 1.

/// The largest value a variable-length integer holds.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Returns the number of bytes that `value` takes. Values above [`VARINT_MAX`] cannot be encoded and count as 8.
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}
