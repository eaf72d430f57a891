//! Limits of a coverage.

/// The most ranges of one origin. Beyond, the oldest gap is closed and told as unknown.
pub const MOST_RANGES: usize = 256;
/// The most origins of one channel in a coverage.
pub const MOST_ORIGINS: usize = 1_024;
/// The most channels in a coverage.
pub const MOST_CHANNELS: usize = 64;
/// The longest encoded coverage, bytes: as text it fits into one user property of MQTT 5.
pub const LONGEST_COVERAGE: usize = 49_149;
