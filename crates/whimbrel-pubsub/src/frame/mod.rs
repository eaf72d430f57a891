//! The frames that clients and brokers send each other: docs/broker-protocol.md.
//!
//! A client says [`ClientFrame::Hello`] in the first message of a session, and publishes. Each subscription has a message stream of
//! its own, which the client opens: [`SubscriberFrame`] goes to the broker on it, and [`SubscriptionFrame`] comes back.

mod error;
mod fields;
mod limits;
mod publishing;
mod subscribing;
mod telling;

pub use error::{FrameError, Refusal, RefusalCode};
pub use limits::{LONGEST_FILTER, LONGEST_NAME, LONGEST_REASON, LONGEST_SELECTOR, PROTOCOL};
pub use publishing::{BrokerFrame, ClientFrame, Credit, Hello, Welcome};
pub use subscribing::{
    Attached, DurableName, Kind, Recover, Slow, Start, Subscribe, Subscribed, SubscriberFrame,
    SubscriptionFrame,
};
pub use telling::{Telling, parse_telling, telling_head};
