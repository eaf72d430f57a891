//! The report of a broker: its channels, the brokers that it is linked with, and its clients.
//!
//! The control socket, the dashboard and `whimbrel top` show the same [`BrokerReport`]. A [`Reporter`] makes it. Rows of clients are bounded:
//! those in trouble come first, and the rest is summed.

mod broker;
mod channel;
mod limits;
mod metrics;
mod publishers;
mod reporter;
mod subscribers;

pub use crate::backbone::{LinkReport, LinkState};
pub use broker::BrokerReport;
pub use channel::{ChannelReport, PartitionReport};
pub use limits::MOST_ROWS;
pub use publishers::{PublisherReport, PublisherReports, PublisherSums};
pub use reporter::Reporter;
pub use subscribers::{SubscriberReport, SubscriberReports, SubscriberSums};
