//! The facts that are kept about a durable subscription.

use std::cmp::Ordering;
use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use whimbrel_pubsub::coverage::MOST_CHANNELS;
use whimbrel_pubsub::message::ChannelId;

use super::error::MetaError;
use crate::durable::succession::Life;
use crate::store::format::{Cursor, Put};

/// The longest name of a subscription, bytes.
pub(super) const LONGEST_NAME: usize = 255;
/// The longest owner, bytes.
const LONGEST_OWNER: usize = 2_048;
/// The longest filter or selector, bytes.
const LONGEST_TEXT: usize = 65_535;

/// The name of a durable subscription: 1 to 255 bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionName(String);

impl SubscriptionName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is empty, too long, or has a control character.
    pub fn new(name: &str) -> Result<Self, MetaError> {
        let is_name = (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(char::is_control);
        if is_name { Ok(Self(name.to_owned())) } else { Err(MetaError::Name) }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A durable subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableSubscription {
    /// Its name.
    pub name: SubscriptionName,
    /// Whose it is: a client's key or user name, as the broker names it.
    pub owner: Vec<u8>,
    /// The topic filter.
    pub filter: String,
    /// The selector, in its normal form.
    pub selector: Option<String>,
    /// The durable channels that the filter reaches. Their segments wait for this subscription.
    pub channels: Vec<ChannelId>,
    /// The number of times it was attached. The higher of two wins.
    pub generation: u64,
    /// When it was made, as [`Life`] counts. It tells it from others that had the same name.
    pub born: u64,
}

impl DurableSubscription {
    /// Returns its life.
    pub fn life(&self) -> Life {
        Life { born: self.born, generation: self.generation }
    }

    /// Whether both ask for the same messages.
    pub(super) fn selects_as(&self, other: &Self) -> bool {
        (&self.filter, &self.selector) == (&other.filter, &other.selector)
    }

    /// Compares what two of one name ask for. All brokers use this order.
    pub(super) fn selection_order<'a>(&'a self, other: &'a Self) -> Ordering {
        let whole = |one: &'a Self| (&one.owner, &one.filter, &one.selector);
        whole(self).cmp(&whole(other))
    }

    /// A digest of its filter and selector. It tells apart coverage of those that had one name.
    pub fn selects(&self) -> u64 {
        let mut text = self.filter.clone().into_bytes();
        if let Some(selector) = &self.selector {
            text.push(0);
            text.extend_from_slice(selector.as_bytes());
        }
        let whole = digest(&SHA256, &text);
        u64::from_le_bytes(std::array::from_fn(|at| whole.as_ref()[at]))
    }

    pub(super) fn check(&self) -> Result<(), MetaError> {
        let selector = self.selector.as_ref().map_or(0, String::len);
        let parts = [
            ("owner's name", self.owner.len(), LONGEST_OWNER),
            ("filter", self.filter.len(), LONGEST_TEXT),
            ("selector", selector, LONGEST_TEXT),
        ];
        match parts.into_iter().find(|(_, bytes, most)| bytes > most) {
            Some((what, bytes, most)) => Err(MetaError::TooLong { what, bytes, most }),
            None if self.channels.len() > MOST_CHANNELS => {
                Err(MetaError::TooMany { what: "channels of a subscription", most: MOST_CHANNELS })
            }
            None => Ok(()),
        }
    }

    /// All but the name and the birth, as the database has them.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.generation);
        out.put_bytes(&self.owner);
        out.put_bytes(self.filter.as_bytes());
        out.push(self.selector.is_some().into());
        if let Some(selector) = &self.selector {
            out.put_bytes(selector.as_bytes());
        }
        self.channels.iter().for_each(|channel| out.put_u32(channel.0));
        out
    }

    pub(super) fn parse(name: &str, bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let name = SubscriptionName::new(name).ok()?;
        let generation = cursor.u64()?;
        let owner = cursor.bytes(LONGEST_OWNER)?.to_vec();
        let filter = cursor.text(LONGEST_TEXT)?;
        let selector = match cursor.byte()? {
            0 => None,
            1 => Some(cursor.text(LONGEST_TEXT)?),
            _ => return None,
        };
        let mut channels = Vec::new();
        while !cursor.is_empty() {
            channels.push(ChannelId(cursor.u32()?));
        }
        let found = Self { name, owner, filter, selector, channels, generation, born: 0 };
        found.check().is_ok().then_some(found)
    }
}

/// The memory that a durable subscription was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Its last generation. A subscription with a higher one is another.
    pub generation: u64,
    /// When the memory ends, milliseconds since 1970.
    pub ends_ms: u64,
    /// When the subscription was made, as [`Life`] counts.
    pub born: u64,
}

impl Tombstone {
    /// The life that was ended.
    pub fn life(&self) -> Life {
        Life { born: self.born, generation: self.generation }
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.generation);
        out.put_u64(self.ends_ms);
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let found = Self { generation: cursor.u64()?, ends_ms: cursor.u64()?, born: 0 };
        cursor.is_empty().then_some(found)
    }
}
