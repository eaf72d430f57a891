use std::fmt;

use super::limits::{MAX_NAME_LEN, MAX_PROPERTIES, MAX_PROPERTIES_LEN};
use super::name::RESERVED_PREFIX;

/// Why a name is not that of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFault {
    /// It has no character.
    Empty,
    /// It is longer than [`MAX_NAME_LEN`] bytes.
    TooLong,
    /// It begins with this character.
    Start(char),
    /// It has this character.
    Part(char),
    /// It is this word of the selector language.
    Word(&'static str),
    /// It begins with [`RESERVED_PREFIX`].
    Reserved,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the name is empty"),
            Self::TooLong => write!(f, "the name is longer than {MAX_NAME_LEN} bytes"),
            Self::Start(character) => {
                write!(f, "the name begins with {character:?}; names begin with a letter, _ or $")
            }
            Self::Part(character) => {
                write!(f, "the name has {character:?}; names consist of letters, 0 to 9, _ and $")
            }
            Self::Word(word) => write!(f, "`{word}` is a reserved word in selectors and cannot be a name"),
            Self::Reserved => {
                write!(f, "the name begins with {RESERVED_PREFIX}, which is reserved for the broker")
            }
        }
    }
}

/// Why properties cannot be published, or bytes are no properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyError {
    fault: PropertyFault,
    name: Option<Box<str>>,
}

/// The fault of a list of properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PropertyFault {
    /// No selector could write the name, or it is reserved.
    Name(NameFault),
    /// Two properties have the same name.
    Twice,
    /// There are more than [`MAX_PROPERTIES`].
    TooMany,
    /// They take more than [`MAX_PROPERTIES_LEN`] bytes.
    TooLong,
    /// The bytes at this place are not as properties are written.
    Malformed(usize),
}

impl PropertyError {
    pub(crate) fn new(fault: PropertyFault) -> Self {
        Self { fault, name: None }
    }

    pub(super) fn of(name: &str, fault: PropertyFault) -> Self {
        // A hostile name may be long.
        let shown: String = name.chars().take(MAX_NAME_LEN).collect();
        Self { fault, name: Some(shown.into()) }
    }

    /// Returns the fault.
    #[must_use]
    pub fn fault(&self) -> PropertyFault {
        self.fault
    }

    /// The property that is wrong, cut after [`MAX_NAME_LEN`] characters. `None`: it is not about one property.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl fmt::Display for PropertyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "property {name:?}: ")?;
        }
        match &self.fault {
            PropertyFault::Name(fault) => write!(f, "{fault}"),
            PropertyFault::Twice => write!(f, "the name is used twice"),
            PropertyFault::TooMany => write!(f, "a message has at most {MAX_PROPERTIES} properties"),
            PropertyFault::TooLong => {
                write!(f, "the properties of a message take at most {MAX_PROPERTIES_LEN} bytes")
            }
            PropertyFault::Malformed(at) => write!(f, "the properties are malformed at byte {at}"),
        }
    }
}

impl std::error::Error for PropertyError {}
