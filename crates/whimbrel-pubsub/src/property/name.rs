use super::error::NameFault;
use super::limits::MAX_NAME_LEN;

/// The words of the selector language, which name no property in any case of their letters.
pub const RESERVED_WORDS: [&str; 11] =
    ["AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"];

/// Names that begin with this are what the broker itself says of a message. Publishers cannot set them.
pub const RESERVED_PREFIX: &str = "JMS";

/// Returns whether a name may begin with this character: a letter of any script, `_` or `$`.
#[must_use]
pub fn is_name_start(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '_' | '$')
}

/// Returns whether a name may go on with this character: what it may begin with, and the digits 0 to 9.
#[must_use]
pub fn is_name_part(character: char) -> bool {
    is_name_start(character) || character.is_ascii_digit()
}

/// Checks that a selector could write this name and that publishers may set it.
///
/// # Errors
/// The first rule that the name breaks.
pub fn check_name(name: &str) -> Result<(), NameFault> {
    let Some(first) = name.chars().next() else { return Err(NameFault::Empty) };
    if name.len() > MAX_NAME_LEN {
        return Err(NameFault::TooLong);
    }
    if !is_name_start(first) {
        return Err(NameFault::Start(first));
    }
    if let Some(odd) = name.chars().find(|character| !is_name_part(*character)) {
        return Err(NameFault::Part(odd));
    }
    if let Some(word) = RESERVED_WORDS.iter().find(|word| word.eq_ignore_ascii_case(name)) {
        return Err(NameFault::Word(word));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err(NameFault::Reserved);
    }
    Ok(())
}
