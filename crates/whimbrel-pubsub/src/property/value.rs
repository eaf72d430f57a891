use std::fmt;

/// The value of a property, as it lies in the message.
///
/// Two values are equal if they have the same type and content. Selectors compare otherwise: there 1 equals 1.0.
#[derive(Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// True or false.
    Boolean(bool),
    /// A whole number; in JMS a `long`.
    Integer(i64),
    /// A binary floating-point number; in JMS a `double`.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Bytes, which a selector can only ask to be there.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Returns the type's name for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "boolean",
            Self::Integer(_) => "integer",
            Self::Float(_) => "float",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => fmt::Debug::fmt(value, f),
            Self::Integer(value) => fmt::Debug::fmt(value, f),
            Self::Float(value) => fmt::Debug::fmt(value, f),
            Self::Text(value) => fmt::Debug::fmt(value, f),
            Self::Bytes(value) => write!(f, "{} bytes", value.len()),
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}
