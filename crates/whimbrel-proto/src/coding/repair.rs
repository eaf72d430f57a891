//! A repair symbol: a random linear combination of the source symbols of a window (RFC 8681).

use super::field;

/// The most source symbols that one repair symbol combines.
pub(crate) const LONGEST_WINDOW: u64 = 192;

/// The longest source symbol in framed form: more fits into no packet.
pub(super) const LONGEST_SYMBOL: usize = 65_535;

/// A repair symbol. Its coefficients follow from its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The number of the first source symbol that it combines.
    pub(crate) first: u64,
    /// How many it combines, from the first on.
    pub(crate) count: u64,
    /// The key of the coefficients.
    pub(crate) key: u16,
    /// The sum. Each source symbol in it stands behind its length, in two bytes, and is padded with zeros.
    pub(crate) sum: Vec<u8>,
}

impl Repair {
    /// Returns whether it could be an honest peer's.
    pub(crate) fn is_sound(&self) -> bool {
        let window =
            (1..=LONGEST_WINDOW).contains(&self.count) && self.first.checked_add(self.count).is_some();
        window && self.sum.len() <= LONGEST_SYMBOL
    }
}

/// Returns the coefficient of a source symbol, which is never zero. It has to look random, but need not be secret: the
/// packet is sealed. The function is the finaliser of SplitMix64.
pub(super) fn coefficient(key: u16, number: u64) -> u8 {
    let mut mixed = (number << 16 | u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) % 255) as u8 + 1
}

/// Returns a source symbol as it is summed: behind its length.
pub(super) fn framed(symbol: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(2 + symbol.len());
    all.extend_from_slice(&(symbol.len() as u16).to_be_bytes());
    all.extend_from_slice(symbol);
    all
}

/// Returns the source symbol in what [`framed`] made, with padding. `None`: the sum was forged, or made otherwise.
pub(super) fn unframed(sum: &[u8]) -> Option<&[u8]> {
    let (length, rest) = sum.split_first_chunk::<2>()?;
    let (symbol, padding) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    padding.iter().all(|byte| *byte == 0).then_some(symbol)
}

/// Sums the symbols, which are in framed form.
pub(super) fn combined<'a>(first: u64, key: u16, symbols: impl Iterator<Item = &'a [u8]>) -> Repair {
    let mut repair = Repair { first, count: 0, key, sum: Vec::new() };
    for symbol in symbols {
        field::add(&mut repair.sum, coefficient(key, first + repair.count), symbol);
        repair.count += 1;
    }
    repair
}
