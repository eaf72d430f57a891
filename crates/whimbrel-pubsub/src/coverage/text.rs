//! Coverage as text, for user properties of MQTT 5: base64url without padding (RFC 4648, section 5).

use super::error::CoverageError;
use super::limits::LONGEST_COVERAGE;
use super::set::Coverage;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Coverage {
    /// Returns the coverage as text.
    pub fn to_text(&self) -> String {
        text_of(&self.encode())
    }

    /// Reads a coverage as text, whoever sent it.
    ///
    /// # Errors
    /// The text is damaged, too long, or of a newer version.
    pub fn from_text(text: &str) -> Result<Self, CoverageError> {
        // Checked before anything is allocated.
        if text.len() > LONGEST_COVERAGE.div_ceil(3) * 4 {
            return Err(CoverageError::TooLong(text.len() / 4 * 3));
        }
        Self::parse(&bytes_of(text).ok_or(CoverageError::Damaged)?)
    }
}

fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for nth in 0..=three.len() {
            text.push(char::from(LETTERS[(number >> (18 - 6 * nth)) as usize & 63]));
        }
    }
    text
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.as_bytes().chunks(4) {
        let mut number = 0;
        for letter in four {
            number = number << 6 | LETTERS.iter().position(|known| known == letter)? as u32;
        }
        number <<= 6 * (4 - four.len());
        let [_, three @ ..] = number.to_be_bytes();
        let whole = four.len().checked_sub(1).filter(|whole| *whole > 0)?;
        // Bits that mean nothing must be zero, or one coverage would have several texts.
        if three[whole..].iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&three[..whole]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_is_that_of_the_standard() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(text_of(bytes.as_bytes()), text, "RFC 4648, section 10");
        }
        assert_eq!(text_of(&[0xfb, 0xff]), "-_8");
        assert_eq!(Coverage::from_text(&Coverage::default().to_text()), Ok(Coverage::default()));
        assert!(text_of(&[0; LONGEST_COVERAGE]).len() <= 65_535, "it fits into a property of MQTT 5");
        assert!(matches!(Coverage::from_text(&"A".repeat(70_000)), Err(CoverageError::TooLong(_))));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_in_one_way(text in "[A-Za-z0-9_=+ -]{0,20}") {
            if let Some(bytes) = bytes_of(&text) {
                prop_assert_eq!(text_of(&bytes), text);
            }
        }

        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(bytes_of(&text_of(&bytes)), Some(bytes));
        }
    }
}
