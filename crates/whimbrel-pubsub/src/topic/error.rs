use std::fmt;

use super::limits::{MAX_LEVELS, MAX_TOPIC_LEN};

/// A text is no topic or no filter: what is wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicError {
    fault: TopicFault,
    position: usize,
}

/// The fault of a topic or filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopicFault {
    /// It has no character.
    Empty,
    /// It is longer than [`MAX_TOPIC_LEN`] bytes.
    TooLong,
    /// It has more than [`MAX_LEVELS`] levels.
    TooManyLevels,
    /// It has the character U+0000.
    Nul,
    /// Its bytes are not UTF-8.
    NotUtf8,
    /// A topic that is published to has a `+` or `#`.
    WildcardInTopic,
    /// A `+` or `#` has other characters in its level.
    WildcardInLevel,
    /// A `#` is not the last level.
    RestNotLast,
    /// `$share` is not followed by a group.
    NoGroup,
    /// The name of the group has a `+` or `#`.
    WildcardInGroup,
    /// The group is not followed by a filter.
    NoFilter,
    /// The filter of a shared subscription is itself shared, or a filter is shared where none may be.
    Shared,
}

impl TopicError {
    pub(super) fn new(fault: TopicFault, position: usize) -> Self {
        Self { fault, position }
    }

    pub(super) fn moved(self, by: usize) -> Self {
        Self { position: self.position + by, ..self }
    }

    /// Returns the fault.
    #[must_use]
    pub fn fault(&self) -> TopicFault {
        self.fault
    }

    /// Returns the place of the fault: the number of bytes before it.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.position;
        match self.fault {
            TopicFault::Empty => write!(f, "the topic is empty: it needs at least one character"),
            TopicFault::TooLong => write!(f, "the topic is longer than {MAX_TOPIC_LEN} bytes"),
            TopicFault::TooManyLevels => {
                write!(f, "the topic has more than {MAX_LEVELS} levels, the first beyond them at byte {at}")
            }
            TopicFault::Nul => write!(f, "the topic has the character U+0000 at byte {at}"),
            TopicFault::NotUtf8 => write!(f, "the topic is not UTF-8 from byte {at} on"),
            TopicFault::WildcardInTopic => {
                write!(
                    f,
                    "the topic has a wildcard at byte {at}: messages are published to one topic, without + and #"
                )
            }
            TopicFault::WildcardInLevel => {
                write!(
                    f,
                    "the wildcard at byte {at} is not alone in its level: write a/+/b or a/#, not a+ or a#"
                )
            }
            TopicFault::RestNotLast => {
                write!(f, "the # at byte {at} is not the last level: + stands for a level in between")
            }
            TopicFault::NoGroup => write!(f, "a group is expected at byte {at}: $share/GROUP/FILTER"),
            TopicFault::WildcardInGroup => {
                write!(f, "the group has a wildcard at byte {at}: its name has no + and no #")
            }
            TopicFault::NoFilter => write!(f, "a filter is expected at byte {at}: $share/GROUP/FILTER"),
            TopicFault::Shared => {
                write!(f, "the filter begins with $share at byte {at}, where no shared subscription can be")
            }
        }
    }
}

impl std::error::Error for TopicError {}
