//! Limits of frames.

/// The application protocol of sessions between clients and brokers.
pub const PROTOCOL: &str = "whimbrel-broker/1";
/// The longest filter, bytes, as in MQTT.
pub const LONGEST_FILTER: usize = 65_535;
/// The longest text of a selector, bytes.
pub const LONGEST_SELECTOR: usize = 4_096;
/// The longest reason, bytes.
pub const LONGEST_REASON: usize = 1_024;
/// The longest name of a durable subscription, bytes.
pub const LONGEST_NAME: usize = 256;
