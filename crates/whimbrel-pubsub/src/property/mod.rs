//! Properties of a message: what the publisher says about it, and what selectors read.
//!
//! A property has a name and a typed [`Value`]. Names are those that a selector can write: letters, digits, `_` and `$`, no digit at the
//! front, no keyword, and not `JMS` at the front, which is the broker's. Everything else is refused where the message is published, with
//! the reason, since no subscriber could ever ask for it.
//!
//! [`Properties`] are kept as they are on the wire, one behind the other, ascending by name. They are checked once.

mod error;
mod name;
mod properties;
mod value;
mod wire;

#[cfg(test)]
mod tests;

pub use error::{NameFault, PropertyError, PropertyFault};
pub use name::{RESERVED_PREFIX, RESERVED_WORDS, check_name, is_name_part, is_name_start};
pub use properties::Properties;
pub(crate) use properties::{check, each, find};
pub use value::Value;

/// The largest number of properties of a message.
pub const MAX_PROPERTIES: usize = 64;

/// The longest name of a property in bytes.
pub const MAX_NAME_LEN: usize = 128;

/// The most bytes that all properties of a message take on the wire.
pub const MAX_PROPERTIES_LEN: usize = 16_383;

/// Something whose properties a selector can read.
pub trait Lookup {
    /// Returns the value of a property, if there is one of this name.
    fn property(&self, name: &str) -> Option<Value<'_>>;

    /// Shows each property once: those, and no others, for which [`property`](Self::property) returns something.
    fn each_property(&self, see: &mut dyn FnMut(&str, Value<'_>));
}
