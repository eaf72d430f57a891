//! Quantities in files: text with a unit, as people write them. Each module is for serde's `with` attribute, in
//! formats that name the types of their values, such as TOML and JSON.
//!
//! ```ignore
//! #[derive(serde::Deserialize)]
//! struct Settings {
//!     #[serde(with = "whimbrel::units::as_text::duration")]
//!     patience: std::time::Duration,
//! }
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer, Serializer};

use super::ParseError;

/// The word for an optional quantity that there is not.
const NONE: &str = "none";

/// Reads text, or a number as if it were text.
struct Quantity<F> {
    expecting: &'static str,
    parse: F,
}

impl<T, F: Fn(&str) -> Result<T, ParseError>> Visitor<'_> for Quantity<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        self.visit_str(NONE)
    }
}

/// Reads a setting that is text, or a number or truth value as if it were text. Formats that do not name the types of
/// their values have text.
#[doc(hidden)]
pub fn parsed<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = Text(PhantomData);
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(text)
    } else {
        deserializer.deserialize_str(text)
    }
}

/// Reads a setting from its text form. What is of another kind gets the setting's own error, which says what to write.
struct Text<T>(PhantomData<T>);

impl<'de, T: FromStr<Err: fmt::Display>> Visitor<'de> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        self.visit_str(if flag { "true" } else { "false" })
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        self.visit_str("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        self.visit_str("[...]")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        self.visit_str("{...}")
    }
}

/// Returns None for its word, and otherwise what `parse` reads.
fn optional<T>(text: &str, parse: impl Fn(&str) -> Result<T, ParseError>) -> Result<Option<T>, ParseError> {
    if text == NONE {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|error| ParseError::plain(format!("{error}, or {NONE}")))
}

/// Bytes as a number of the setting's type.
fn bytes_of<T: TryFrom<u64>>(text: &str) -> Result<T, ParseError> {
    let fitting = T::try_from(super::bytes(text)?);
    fitting.map_err(|_| ParseError::plain(format!("`{text}` is too large for this setting: write less")))
}

/// A duration, such as `"250ms"`.
pub mod duration {
    use std::time::Duration;

    use super::{Deserializer, Quantity, Serializer};
    use crate::units;

    /// Writes the text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&units::duration_text(*duration))
    }

    /// Reads the text.
    ///
    /// # Errors
    /// It is not a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let expecting = "a duration in quotation marks, for example \"250ms\"";
        deserializer.deserialize_any(Quantity { expecting, parse: units::duration })
    }
}

/// A duration or `"none"`.
pub mod optional_duration {
    use std::time::Duration;

    use super::{Deserializer, NONE, Quantity, Serializer, optional};
    use crate::units;

    /// Writes the text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::duration::serialize(duration, serializer),
            None => serializer.serialize_str(NONE),
        }
    }

    /// Reads the text.
    ///
    /// # Errors
    /// It is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let expecting = "a duration in quotation marks, for example \"250ms\", or \"none\"";
        let parse = |text: &str| optional(text, units::duration);
        deserializer.deserialize_any(Quantity { expecting, parse })
    }
}

/// A number of bytes, such as `"4 MiB"` or `1472`, in any unsigned type.
pub mod bytes {
    use super::{Deserializer, Quantity, Serializer, bytes_of};
    use crate::units;

    /// Writes the text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer, T: Copy + TryInto<u64>>(
        bytes: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        // Each unsigned type up to 64 bits fits.
        let bytes = (*bytes).try_into().unwrap_or(u64::MAX);
        serializer.serialize_str(&units::bytes_text(bytes))
    }

    /// Reads the text or number.
    ///
    /// # Errors
    /// It is not a number of bytes, or too large for the type.
    pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
        let expecting = "a number of bytes, for example 1500 or \"4 MiB\"";
        deserializer.deserialize_any(Quantity { expecting, parse: bytes_of })
    }
}

/// A number of bytes or `"none"`.
pub mod optional_bytes {
    use super::{Deserializer, NONE, Quantity, Serializer, bytes_of, optional};

    /// Writes the text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer, T: Copy + TryInto<u64>>(
        bytes: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::bytes::serialize(bytes, serializer),
            None => serializer.serialize_str(NONE),
        }
    }

    /// Reads the text or number.
    ///
    /// # Errors
    /// It is neither, or too large for the type.
    pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let expecting = "a number of bytes, for example 1500 or \"4 MiB\", or \"none\"";
        let parse = |text: &str| optional(text, bytes_of);
        deserializer.deserialize_any(Quantity { expecting, parse })
    }
}

/// Names that are bytes on the wire and text in files.
pub(crate) mod names {
    use bytes::Bytes;
    use serde::ser::{Error, SerializeSeq};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(names: &[Bytes], serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(names.len()))?;
        for name in names {
            let text = std::str::from_utf8(name).map_err(|_| {
                S::Error::custom(format!("the name {name:?} is not text, which a file needs"))
            })?;
            list.serialize_element(text)?;
        }
        list.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Bytes>, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        Ok(names.into_iter().map(Bytes::from).collect())
    }
}
