//! CRC-32C, which finds damage but proves nothing about who wrote the bytes.

use crc32c::crc32c;

use super::Malformed;

/// The bytes with their checksum behind them.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The bytes before a checksum that is theirs.
pub(crate) fn unsealed(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or(Malformed)?;
    if crc32c(body).to_le_bytes() == *sum { Ok(body) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa, "RFC 3720, B.4");
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
