//! Bytes as hexadecimal digits, for state that one process passes to the next on a line.

use anyhow::Context;

pub(super) fn digits<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    bytes.into_iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn bytes(digits: &str) -> anyhow::Result<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    let bytes: Result<_, _> = pairs.map(|pair| u8::from_str_radix(pair, 16)).collect();
    bytes.context("not hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_their_way_as_digits() {
        assert_eq!(bytes(&digits(&[0, 15, 255])).unwrap(), [0, 15, 255]);
        assert!(bytes("0g").is_err() && bytes("ä").is_err());
    }
}
