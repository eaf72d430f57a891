//! The frames that clients and brokers send each other: docs/broker-protocol.md.
//!
//! A client says [`ClientFrame::Hello`] in the first message of a session, and publishes. Each subscription has a message stream of
//! its own, which the client opens: [`SubscriberFrame`] goes to the broker on it, and [`SubscriptionFrame`] comes back.

mod error;
mod fields;
mod publishing;
mod subscribing;
mod telling;

pub use error::{FrameError, Refusal, RefusalCode};
pub use publishing::{BrokerFrame, ClientFrame, Credit, Hello, Welcome};
pub use subscribing::{
    Attached, DurableName, Kind, Recover, Slow, Start, Subscribe, Subscribed, SubscriberFrame,
    SubscriptionFrame,
};
pub use telling::{Telling, parse_telling};

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
