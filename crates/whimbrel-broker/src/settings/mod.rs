//! The settings of a broker, as they stand in a file.

mod backbone;
mod bridge;
mod bridge_topics;
mod channel;
mod client;
mod error;
mod mqtt;
mod peer;
mod place;
mod quota;
mod secret;
mod store;
#[cfg(test)]
mod tests;
mod texts;
mod whole;

pub use crate::ids::broker_id;
pub use backbone::{BackboneSection, NatsSection};
pub use bridge::{BridgeSection, BridgeUrl, RuleSection, VersionName};
pub use channel::{ChannelSection, PartitionSection, PolicyName};
pub use client::{ClientSection, OtherClients};
pub use error::SettingsError;
pub use mqtt::{MqttDoor, MqttPlan, MqttSection, TlsSection, UserSection, WebSocketSection};
pub use peer::PeerSection;
pub use quota::QuotaSection;
pub use secret::Secret;
pub use store::StoreSection;
pub use whole::{BrokerSection, Settings};
