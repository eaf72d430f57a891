//! The state that a subscription keeps between two connections.

use std::fmt;

use super::error::CoverageError;
use super::set::Coverage;
use super::told::Told;
use crate::codec::{Malformed, Parser, put_bytes, put_varint};
use crate::message::ChannelId;

/// A cluster of brokers, named by a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A subscription's state, named by a random number: two devices with copies of one state have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u128);

/// The filter and the selector of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topic filter.
    pub filter: String,
    /// The selector, in its normal form.
    pub selector: Option<String>,
}

/// The state of a semi-durable subscription: all that anybody keeps for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionState {
    id: SubscriptionId,
    cluster: ClusterId,
    subscription: Subscription,
    generation: u64,
    coverage: Coverage,
}

/// A subscriber's verdict on something that a broker told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is a message to hand on.
    New,
    /// It is a message that was handed on before.
    Repeated,
    /// It is no message.
    Noted,
}

impl SubscriptionState {
    /// Returns the state of a new subscription, which covers nothing. `id` is a new random number.
    pub fn new(id: SubscriptionId, cluster: ClusterId, subscription: Subscription) -> Self {
        Self { id, cluster, subscription, generation: 0, coverage: Coverage::default() }
    }

    /// A state that is kept nowhere, for a durable subscription whose program has none.
    pub(crate) fn nameless() -> Self {
        let subscription = Subscription { filter: String::new(), selector: None };
        Self::new(SubscriptionId(0), ClusterId(0), subscription)
    }

    /// Returns its name.
    pub fn id(&self) -> SubscriptionId {
        self.id
    }

    /// Returns the cluster to which the coverage belongs.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns the topics and messages that the subscription asks for.
    pub fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Returns the number of times the subscription was attached. Of two devices with one state, brokers serve the one with the higher number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the coverage.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Begins a new generation, which must be saved before it is used.
    pub fn attach(&mut self) -> u64 {
        self.generation = self.generation.saturating_add(1);
        self.generation
    }

    /// Returns whether it was attached nowhere yet with its filter and selector, so that there is nothing that it missed.
    pub fn is_new(&self) -> bool {
        self.coverage.iter().next().is_none()
    }

    /// Notes that it is attached for these channels. What is published in them from now on was missed if it does not come, even where
    /// nothing was published before.
    pub fn note_channels(&mut self, channels: &[ChannelId]) {
        for channel in channels {
            // A channel beyond the limit is not remembered.
            self.coverage.entry(*channel).ok();
        }
    }

    /// Takes another filter or selector. Returns whether it differs. The coverage then is empty: it cannot speak for what the former
    /// selection left out.
    pub fn select(&mut self, subscription: Subscription) -> bool {
        let differs = subscription != self.subscription;
        if differs {
            self.subscription = subscription;
            self.coverage = Coverage::default();
        }
        differs
    }

    /// Takes over what a broker told about `channel`, and says what to do with it.
    ///
    /// Hand a new message on before the state is saved, or after: a crash in between repeats it, or loses it.
    ///
    /// # Errors
    /// The coverage is full. The message may come again after a return.
    pub fn hear(&mut self, channel: ChannelId, told: &Told) -> Result<Heard, CoverageError> {
        let coverage = self.coverage.entry(channel)?;
        let heard = match told {
            Told::Delivery(delivery) if coverage.contains(delivery.stamp.origin, delivery.stamp.sequence) => {
                Heard::Repeated
            }
            Told::Delivery(_) => Heard::New,
            _ => Heard::Noted,
        };
        if let Some(cover) = told.cover() {
            coverage.insert(cover.origin, cover.range)?;
        }
        Ok(heard)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.id.0.to_le_bytes().to_vec();
        out.extend_from_slice(&self.cluster.0.to_le_bytes());
        put_varint(&mut out, self.generation);
        put_bytes(&mut out, self.subscription.filter.as_bytes());
        out.push(self.subscription.selector.is_some().into());
        if let Some(selector) = &self.subscription.selector {
            put_bytes(&mut out, selector.as_bytes());
        }
        put_bytes(&mut out, &self.coverage.encode());
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut parser = Parser::new(bytes);
        let id = SubscriptionId(u128::from_le_bytes(parser.array()?));
        let cluster = ClusterId(u128::from_le_bytes(parser.array()?));
        let generation = parser.varint()?;
        let filter = text(&mut parser)?;
        let selector = match parser.byte()? {
            0 => None,
            1 => Some(text(&mut parser)?),
            _ => return Err(Malformed),
        };
        let coverage = Coverage::parse(parser.bytes(bytes.len())?).map_err(|_| Malformed)?;
        if !parser.is_empty() {
            return Err(Malformed);
        }
        Ok(Self { id, cluster, subscription: Subscription { filter, selector }, generation, coverage })
    }
}

/// The longest filter or selector, bytes.
const LONGEST_TEXT: usize = 65_535;

fn text(parser: &mut Parser<'_>) -> Result<String, Malformed> {
    String::from_utf8(parser.bytes(LONGEST_TEXT)?.to_vec()).map_err(|_| Malformed)
}
