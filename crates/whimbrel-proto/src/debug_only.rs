//! `Debug` for types of which only some fields may be printed. The others are secret, or too long to read.

/// Implements `Debug` with the named fields, and `..` in place of the others.
macro_rules! debug_only {
    ($type:ident { $($field:ident),* }) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_only;
