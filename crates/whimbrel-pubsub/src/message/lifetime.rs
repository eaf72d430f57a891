//! The lifetime of a message.

use std::time::Duration;

use super::error::MessageError;

/// The longest lifetime (49 days, as many milliseconds as 32 bits hold).
pub const LONGEST_LIFETIME: Duration = Duration::from_millis(u32::MAX as u64);

/// The lifetime in milliseconds, rounded up, so that a short one does not become none.
pub(super) fn in_millis(lifetime: Duration) -> Result<u32, MessageError> {
    match u32::try_from(lifetime.as_nanos().div_ceil(1_000_000)) {
        Ok(0) | Err(_) => Err(MessageError::Lifetime),
        Ok(millis) => Ok(millis),
    }
}
