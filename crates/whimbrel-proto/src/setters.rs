//! Settings are set one by one, by a method named like the field.

/// Adds a method for each field that sets it and gives the settings back, so that they can be written in one expression although
/// the type may get more fields.
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
