//! The clear head of a packet.
//!
//! A sealed packet is `flags(1) destination-id(8) packet-number(1..4) blocks… tag(16)`. The flags are: bit 7 clear;
//! bit 6 early; bits 5 to 3 zero; bit 2 key phase; bits 1 and 0 packet-number length less one. The low six bits and
//! the packet number are masked (RFC 9001 section 5.4, sample 4 bytes past the start of the packet number). Clear
//! packets of the handshake have bit 7 set and a block type in the low bits.

use crate::ConnectionId;

/// The length of the clear part, flags and destination id, in bytes.
pub const CLEAR_LEN: usize = 1 + ConnectionId::LEN;
/// The length of the AEAD tag in bytes.
pub const TAG_LEN: usize = 16;
/// The number of ciphertext bytes sampled for header protection.
pub const SAMPLE_LEN: usize = 16;
/// Set in SYN, SYN-ACK, PING and PONG packets.
pub const CLEAR_BIT: u8 = 0x80;
/// Set in packets sealed under the early secret.
pub const EARLY_BIT: u8 = 0x40;
/// The low bit of the number of the key generation that sealed the packet.
pub const KEY_PHASE_BIT: u8 = 0x04;
/// The bits of the flags byte under header protection.
pub const PROTECTED_BITS: u8 = 0x3f;
/// The length of the shortest sealed packet that can carry a sample.
pub const MIN_SEALED: usize = CLEAR_LEN + 4 + SAMPLE_LEN;

/// Returns the flags byte (still masked if the packet is sealed) and the destination id of a packet.
pub fn destination(packet: &[u8]) -> Option<(u8, ConnectionId)> {
    let (flags, rest) = packet.split_first()?;
    let id = rest.first_chunk::<8>()?;
    Some((*flags, ConnectionId::from_bytes(*id)))
}

/// Returns the bytes that a packet number needs, so that a receiver that has acknowledged `acked` (`None`: nothing) can
/// expand it (RFC 9000 section A.2).
pub fn number_len(number: u64, acked: Option<u64>) -> usize {
    let span = acked.map_or(number + 1, |acked| number - acked);
    match span {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    }
}

/// Returns the number whose low `8 * length` bits are `truncated` and that is nearest to `expected` (RFC 9000 section A.3).
pub fn expand_number(truncated: u64, length: usize, expected: u64) -> u64 {
    let window = 1u64 << (8 * length);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn truncated_numbers_expand(acked in 0u64..1 << 40, ahead in 1u64..1 << 22, behind in 0u64..64) {
            let number = acked + ahead;
            let length = number_len(number, Some(acked));
            let truncated = number & ((1 << (8 * length)) - 1);
            // The receiver has seen at least what it acknowledged, and at most a little beyond this number.
            prop_assert_eq!(expand_number(truncated, length, acked + 1), number);
            prop_assert_eq!(expand_number(truncated, length, number + behind.min(ahead)), number);
        }
    }
}
