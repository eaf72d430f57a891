//! The complaint of a check.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `check` and converts a panic to its message.
///
/// # Errors
/// The panic's message.
pub fn complaint<T>(check: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(check)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into())).unwrap_or_default()
    })
}
