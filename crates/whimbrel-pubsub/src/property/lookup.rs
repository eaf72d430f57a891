//! The properties of a message as a selector reads them.

use super::value::Value;

/// Something whose properties a selector can read.
pub trait Lookup {
    /// Returns the value of a property, if there is one of this name.
    fn property(&self, name: &str) -> Option<Value<'_>>;

    /// Shows each property once: those, and no others, for which [`property`](Self::property) returns something.
    fn each_property(&self, see: &mut dyn FnMut(&str, Value<'_>));
}
