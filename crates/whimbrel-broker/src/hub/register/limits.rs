//! The times of the register.

use std::time::Duration;

/// How often a broker looks at how its clients get on.
pub const LOOK: Duration = Duration::from_secs(1);
