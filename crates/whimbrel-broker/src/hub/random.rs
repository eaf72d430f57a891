//! Random numbers.

/// A random number. A system that has none has no sessions either.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).ok();
    u64::from_le_bytes(bytes)
}
