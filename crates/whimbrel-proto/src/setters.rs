//! Builder methods for settings, each named like its field.

/// Adds a method for each field that sets it and returns the settings. A configuration can then be written as one
/// expression, even though the type may gain fields.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($type:ident { $($field:ident: $of:ty),* $(,)? }) => {
        impl $type {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@", stringify!($type), "::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $of) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
