use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::error::{TopicError, TopicFault};
use super::filter::TopicFilter;
use super::limits::SHARE;
use super::name::{check_text, utf8};

/// The name of a group of subscribers that share messages: at least one character, without `/`, `+` and `#`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Arc<str>);

impl GroupName {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The topics of a subscription: `FILTER` for itself, or `$share/GROUP/FILTER` for a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscribed {
    /// The group, if the subscription is shared.
    pub group: Option<GroupName>,
    /// The filter.
    pub filter: TopicFilter,
}

impl Subscribed {
    /// Reads a text.
    ///
    /// # Errors
    /// The rule that the text breaks, and where.
    pub fn parse(text: &str) -> Result<Self, TopicError> {
        check_text(text)?;
        let mut levels = text.splitn(3, '/');
        if levels.next() != Some(SHARE) {
            return TopicFilter::parse(text).map(|filter| Self { group: None, filter });
        }
        let Some(group) = levels.next().filter(|group| !group.is_empty()) else {
            return Err(TopicError::new(TopicFault::NoGroup, text.len().min(SHARE.len() + 1)));
        };
        let group_at = SHARE.len() + 1;
        if let Some(at) = group.find(['+', '#']) {
            return Err(TopicError::new(TopicFault::WildcardInGroup, group_at + at));
        }
        let filter_at = group_at + group.len() + 1;
        let Some(filter) = levels.next().filter(|filter| !filter.is_empty()) else {
            return Err(TopicError::new(TopicFault::NoFilter, text.len().min(filter_at)));
        };
        let filter = TopicFilter::parse(filter).map_err(|error| error.moved(filter_at))?;
        Ok(Self { group: Some(GroupName(group.into())), filter })
    }

    /// Reads bytes from the network.
    ///
    /// # Errors
    /// The rule that the bytes break, and where.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TopicError> {
        Self::parse(utf8(bytes)?)
    }
}

impl FromStr for Subscribed {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        Self::parse(text)
    }
}

impl fmt::Display for Subscribed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = &self.group {
            write!(f, "{SHARE}/{}/", group.as_str())?;
        }
        fmt::Display::fmt(&self.filter, f)
    }
}
