//! Numbers as Java writes them, without hexadecimal fractions.

/// A number in the text, without its sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// At most 2^63, which only a minus before it makes an integer.
    Integer(u64),
    Float(f64),
}

/// Why letters and digits are no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadNumber {
    Malformed,
    TooLarge,
    TooSmall,
}

/// The magnitude of the smallest integer.
pub(super) const LOWEST: u64 = 1 << 63;

/// The number of bytes at the front of `text`, which begins with a digit or a dot, that belong to one number.
pub(super) fn len(text: &str) -> usize {
    let is_plain = !text.starts_with("0x") && !text.starts_with("0X");
    let mut before = b' ';
    for (at, byte) in text.bytes().enumerate() {
        let is_sign = matches!(byte, b'+' | b'-') && is_plain && matches!(before, b'e' | b'E');
        if !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'.') && !is_sign {
            return at;
        }
        before = byte;
    }
    text.len()
}

pub(super) fn parse(text: &str) -> Result<Number, BadNumber> {
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        return integer(digits, 16);
    }
    if let Some(digits) = lower.strip_prefix("0b") {
        return integer(digits, 2);
    }
    if lower.contains(['.', 'e']) || lower.ends_with(['f', 'd']) {
        return float(&lower);
    }
    match lower.strip_prefix('0') {
        Some(digits) if !digits.is_empty() && digits != "l" => integer(digits.trim_start_matches('_'), 8),
        _ => integer(&lower, 10),
    }
}

fn integer(text: &str, radix: u32) -> Result<Number, BadNumber> {
    let digits = text.strip_suffix('l').unwrap_or(text);
    let digits = without_underscores(digits, radix)?;
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(BadNumber::Malformed);
    }
    let most = if radix == 10 { LOWEST } else { LOWEST - 1 };
    let value = u64::from_str_radix(&digits, radix).ok().filter(|value| *value <= most);
    value.map(Number::Integer).ok_or(BadNumber::TooLarge)
}

fn float(text: &str) -> Result<Number, BadNumber> {
    let digits = text.strip_suffix(['f', 'd']).unwrap_or(text);
    let digits = without_underscores(digits, 10)?;
    if !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-')) {
        return Err(BadNumber::Malformed);
    }
    let value = if text.ends_with('f') { digits.parse().map(f32::into) } else { digits.parse::<f64>() };
    let value = value.map_err(|_| BadNumber::Malformed)?;
    if value.is_infinite() {
        return Err(BadNumber::TooLarge);
    }
    let mantissa = digits.split('e').next().unwrap_or_default();
    if value == 0.0 && mantissa.contains(|digit: char| matches!(digit, '1'..='9')) {
        return Err(BadNumber::TooSmall);
    }
    Ok(Number::Float(value))
}

/// Underscores stand between digits only.
fn without_underscores(text: &str, radix: u32) -> Result<String, BadNumber> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut before = None;
    while let Some(character) = characters.next() {
        if character != '_' {
            out.push(character);
        } else {
            let is_inside =
                |beside: Option<char>| beside.is_some_and(|beside| beside == '_' || beside.is_digit(radix));
            if !is_inside(before) || !is_inside(characters.peek().copied()) {
                return Err(BadNumber::Malformed);
            }
        }
        before = Some(character);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_javas() {
        let integers = [
            ("0", 0),
            ("57", 57),
            ("3L", 3),
            ("0l", 0),
            ("0x1F", 31),
            ("0XffL", 255),
            ("017", 15),
            ("0b101", 5),
            ("1_000", 1000),
            ("0_7", 7),
            ("9223372036854775807", LOWEST - 1),
            ("9223372036854775808", LOWEST),
        ];
        for (text, expected) in integers {
            assert_eq!(parse(text), Ok(Number::Integer(expected)), "{text}");
        }
        let floats = [
            ("7.", 7.0),
            (".5", 0.5),
            ("7E3", 7000.0),
            ("57.9e-2", 0.579),
            ("1.e+2", 100.0),
            ("1f", 1.0),
            ("2d", 2.0),
            ("0.0", 0.0),
            ("0e0", 0.0),
            ("0.1f", 0.1_f32.into()),
            ("08.5", 8.5),
            ("1_0.5", 10.5),
        ];
        for (text, expected) in floats {
            assert_eq!(parse(text), Ok(Number::Float(expected)), "{text}");
        }
    }

    #[test]
    fn what_java_refuses_is_refused() {
        for text in [
            "08", "0x", "0b2", "1__", "1_", "1a", "1.5.2", ".", "1e", "1ef", "1_.5", "1._5", "0xg", "3LL",
            "0b", "1e5L",
        ] {
            assert_eq!(parse(text), Err(BadNumber::Malformed), "{text}");
        }
        for text in ["9223372036854775809", "0x8000000000000000", "1e309", "1e39f", "99999999999999999999999"]
        {
            assert_eq!(parse(text), Err(BadNumber::TooLarge), "{text}");
        }
        assert_eq!(parse("1e-400"), Err(BadNumber::TooSmall));
    }

    #[test]
    fn a_number_ends_before_an_operator() {
        for (text, expected) in [("1+2", 1), ("1e+2+3", 4), ("0x1e+2", 4), ("12)", 2), ("1.5 ", 3), ("7", 1)]
        {
            assert_eq!(len(text), expected, "{text}");
        }
    }
}
