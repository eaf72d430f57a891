use std::borrow::Borrow;
use std::fmt;
use std::str::{FromStr, Split};
use std::sync::Arc;

use super::error::{TopicError, TopicFault};
use super::limits::{MAX_LEVELS, MAX_TOPIC_LEN};

/// A topic that a message is published to: no wildcards, 1 to [`MAX_TOPIC_LEN`] bytes, at most [`MAX_LEVELS`] levels.
///
/// A clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// Checks a text.
    ///
    /// # Errors
    /// The rule that the text breaks, and where.
    pub fn parse(text: &str) -> Result<Self, TopicError> {
        check_topic(text.as_bytes())?;
        Ok(Self(text.into()))
    }

    /// A text that was checked.
    pub(crate) fn of_checked(text: &str) -> Self {
        Self(text.into())
    }

    /// Checks bytes from the network.
    ///
    /// # Errors
    /// The rule that the bytes break, and where.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TopicError> {
        check_topic(bytes)?;
        Ok(Self::of_checked(utf8(bytes)?))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the levels, at least one.
    #[must_use]
    pub fn levels(&self) -> Split<'_, char> {
        self.0.split('/')
    }

    /// Returns whether the first level begins with `$`, so that no filter that begins with a wildcard matches.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with('$')
    }
}

/// Checks that a message may be published to a topic.
pub(crate) fn check_topic(bytes: &[u8]) -> Result<(), TopicError> {
    let text = utf8(bytes)?;
    check_text(text)?;
    match text.find(['+', '#']) {
        Some(at) => Err(TopicError::new(TopicFault::WildcardInTopic, at)),
        None => Ok(()),
    }
}

/// Checks what holds for topics and filters alike.
pub(super) fn check_text(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::new(TopicFault::Empty, 0));
    }
    if text.len() > MAX_TOPIC_LEN {
        return Err(TopicError::new(TopicFault::TooLong, MAX_TOPIC_LEN));
    }
    if let Some(at) = text.find('\0') {
        return Err(TopicError::new(TopicFault::Nul, at));
    }
    match text.match_indices('/').nth(MAX_LEVELS - 1) {
        Some((slash, _)) => Err(TopicError::new(TopicFault::TooManyLevels, slash + 1)),
        None => Ok(()),
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, TopicError> {
    std::str::from_utf8(bytes).map_err(|error| TopicError::new(TopicFault::NotUtf8, error.valid_up_to()))
}

impl FromStr for Topic {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        Self::parse(text)
    }
}

impl AsRef<str> for Topic {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Topic {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
