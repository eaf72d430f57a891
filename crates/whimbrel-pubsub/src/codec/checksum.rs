//! CRC-32C, which finds damage but proves nothing about who wrote the bytes.

use super::Malformed;

/// The remainders of all bytes, for the polynomial of Castagnoli in reversed order of bits.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 == 1 { (remainder >> 1) ^ 0x82f6_3b78 } else { remainder >> 1 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// The CRC-32C of `bytes` (RFC 3720, appendix B.4).
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| (sum >> 8) ^ TABLE[usize::from((sum as u8) ^ byte)])
}

/// The bytes with their checksum behind them.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The bytes before a checksum that is theirs.
pub(crate) fn unsealed(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or(Malformed)?;
    if checksum(body).to_le_bytes() == *sum { Ok(body) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_standard() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa, "RFC 3720, B.4");
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let whole = sealed(b"some bytes".to_vec());
        assert_eq!(unsealed(&whole), Ok(&b"some bytes"[..]));
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unsealed(&damaged), Err(Malformed), "bit {bit}");
        }
    }
}
