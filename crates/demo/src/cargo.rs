//! The data that is sent: files generated from a seed, and messages stamped with their number and time.

use aws_lc_rs::digest::{SHA256, digest};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_cli::perf::monotonic_ns;

/// The kinds of message, carried as the payload protocol identifier.
pub(crate) mod kind {
    /// The first message of a connection: the lane's name.
    pub(crate) const OPENING: u32 = 1;
    /// Data that fills the link.
    pub(crate) const BULK: u32 = 2;
    /// A position.
    pub(crate) const POSITION: u32 = 3;
    /// A message that somebody waits for.
    pub(crate) const URGENT: u32 = 4;
    /// A message like an urgent one, but sent without priority.
    pub(crate) const ORDINARY: u32 = 5;
}

/// The length of the number and the sending time.
const STAMP: usize = 16;

/// Returns an incompressible file. It depends only on its length and the seed.
pub(crate) fn file(bytes: usize, seed: u64) -> Vec<u8> {
    let mut file = vec![0; bytes];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut file);
    file
}

/// Returns the SHA-256 digest in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Returns hexadecimal text, two digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a message of `size` bytes (at least 16) that carries its number and the current time.
pub(crate) fn stamped(number: u64, size: usize) -> Vec<u8> {
    let mut payload = vec![0; size.max(STAMP)];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    payload[8..STAMP].copy_from_slice(&monotonic_ns().to_be_bytes());
    payload
}

/// Returns the number and time of a stamped message.
pub(crate) fn stamp(payload: &[u8]) -> Option<(u64, u64)> {
    let (number, rest) = payload.split_first_chunk()?;
    let (sent_ns, _) = rest.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), u64::from_be_bytes(*sent_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_back() {
        let before = monotonic_ns();
        let (number, sent_ns) = stamp(&stamped(7, 100)).unwrap();
        assert!(number == 7 && (before..=monotonic_ns()).contains(&sent_ns));
        assert_eq!(stamp(&[0; 15]), None);
    }

    #[test]
    fn files_come_from_their_seed() {
        assert_eq!(file(1000, 1), file(1000, 1));
        assert_ne!(file(1000, 1), file(1000, 2));
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
