//! Limits of topics and filters.

/// The longest topic or filter in bytes, as in MQTT.
pub const MAX_TOPIC_LEN: usize = 65_535;
/// The largest number of levels of a topic or filter.
pub const MAX_LEVELS: usize = 128;
/// The text before the name of a group.
pub(super) const SHARE: &str = "$share";
