//! Messages at QoS 2 to an MQTT client, as they are kept on disk by packet identifier.

use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};

use super::subscription::{LONGEST_NAME, SubscriptionName};
use crate::store::format::{Cursor, Put};

/// The state of a packet identifier under which a message at QoS 2 goes to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// The message was sent, or is about to be. `None`: it is none of a durable subscription.
    Sent(Option<MessageName>),
    /// The client has the message, and was told to release the identifier, or is about to be.
    Released,
}

/// A message of a durable subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageName {
    /// The subscription.
    pub subscription: SubscriptionName,
    /// The channel.
    pub channel: ChannelId,
    /// The place at which the message entered.
    pub origin: Origin,
    /// Its number there.
    pub sequence: u64,
}

const RELEASED: u8 = 0;
const SENT: u8 = 1;
const SENT_BY_NAME: u8 = 2;

impl Outbound {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Released => out.push(RELEASED),
            Self::Sent(None) => out.push(SENT),
            Self::Sent(Some(MessageName { subscription, channel, origin, sequence })) => {
                out.push(SENT_BY_NAME);
                out.put_u32(channel.0);
                out.put_u64(origin.broker.0);
                out.put_u64(origin.epoch);
                out.put_u64(*sequence);
                out.put_bytes(subscription.as_str().as_bytes());
            }
        }
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let outbound = match cursor.byte()? {
            RELEASED => Self::Released,
            SENT => Self::Sent(None),
            SENT_BY_NAME => {
                let channel = ChannelId(cursor.u32()?);
                let origin = Origin { broker: BrokerId(cursor.u64()?), epoch: cursor.u64()? };
                let sequence = cursor.u64()?;
                let subscription = SubscriptionName::new(&cursor.text(LONGEST_NAME)?).ok()?;
                Self::Sent(Some(MessageName { subscription, channel, origin, sequence }))
            }
            _ => return None,
        };
        cursor.is_empty().then_some(outbound)
    }
}
