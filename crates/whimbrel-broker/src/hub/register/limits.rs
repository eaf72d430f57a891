//! The times of the register.

use std::time::Duration;

/// The interval at which a broker checks its clients.
pub const LOOK: Duration = Duration::from_secs(1);
