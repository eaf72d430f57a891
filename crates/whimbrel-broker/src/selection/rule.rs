//! The rule for the messages that belong to a partition.

use std::ops::{Bound, RangeBounds};

use whimbrel_pubsub::message::Message;
use whimbrel_pubsub::property::{Lookup, NameFault, Value, check_name};
use whimbrel_pubsub::topic::TopicFilter;

use crate::buffer::Picks;
use crate::selector;

/// The rule of a partition: a topic filter, and maybe the range in which a property lies.
#[derive(Clone, Debug)]
pub struct PartitionRule {
    filter: TopicFilter,
    key: Option<KeyRange>,
}

/// A property and its range. A message whose property is absent or no number is outside.
#[derive(Clone, Debug)]
pub struct KeyRange {
    name: Box<str>,
    low: Bound<f64>,
    high: Bound<f64>,
}

impl KeyRange {
    /// Creates a range of the property `name`.
    ///
    /// # Errors
    /// No property can have this name.
    pub fn new(name: &str, low: Bound<f64>, high: Bound<f64>) -> Result<Self, NameFault> {
        check_name(name)?;
        Ok(Self { name: name.into(), low, high })
    }

    /// Returns the property.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether some number of the range is among these values.
    pub(super) fn is_allowed_by(&self, values: &selector::Reach) -> bool {
        values.allows_numbers(self.low, self.high)
    }

    fn contains(&self, value: Option<Value<'_>>) -> bool {
        let number = value.and_then(selector::promoted);
        number.is_some_and(|number| (self.low, self.high).contains(&number))
    }
}

impl PartitionRule {
    /// Creates a rule for all messages whose topic matches, and whose property lies in the range if there is one.
    pub fn new(filter: TopicFilter, key: Option<KeyRange>) -> Self {
        Self { filter, key }
    }

    /// Returns the filter.
    pub fn filter(&self) -> &TopicFilter {
        &self.filter
    }

    /// Returns the range.
    pub fn key(&self) -> Option<&KeyRange> {
        self.key.as_ref()
    }
}

impl Picks for PartitionRule {
    fn picks(&self, message: &Message) -> bool {
        self.filter.matches_text(message.topic())
            && self.key.as_ref().is_none_or(|key| key.contains(message.property(&key.name)))
    }
}
