//! Properties of a message: what the publisher says about it, and what selectors read.
//!
//! A property has a name and a typed [`Value`]. Names are those that a selector can write: letters, digits, `_` and `$`, no digit at the
//! front, no keyword, and not `JMS` at the front, which is the broker's. Everything else is refused where the message is published, with
//! the reason, since no subscriber could ever ask for it.
//!
//! [`Properties`] are kept as they are on the wire, one behind the other, ascending by name. They are checked once.

mod error;
mod limits;
mod lookup;
mod name;
mod properties;
mod value;
mod wire;

#[cfg(test)]
mod tests;

pub use error::{NameFault, PropertyError, PropertyFault};
pub use limits::{MAX_NAME_LEN, MAX_PROPERTIES, MAX_PROPERTIES_LEN};
pub use lookup::Lookup;
pub use name::{RESERVED_PREFIX, RESERVED_WORDS, check_name, is_name_part, is_name_start};
pub use properties::Properties;
pub(crate) use properties::{check, each, find};
pub use value::Value;
