use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::error::{TopicError, TopicFault};
use super::limits::SHARE;
use super::name::Topic;
use super::name::{check_text, utf8};

/// A filter: which topics a subscriber, or a part of a configuration, is about.
///
/// A clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter(Arc<str>);

/// A level of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level<'a> {
    /// Exactly this text.
    Named(&'a str),
    /// `+`: one level, whatever it is.
    One,
    /// `#`: all further levels, also none. It is the last level.
    Rest,
}

impl TopicFilter {
    /// Checks a text. Filters of shared subscriptions are refused: [`Subscribed`](super::Subscribed) reads these.
    ///
    /// # Errors
    /// The rule that the text breaks, and where.
    pub fn parse(text: &str) -> Result<Self, TopicError> {
        check_text(text)?;
        if text.split('/').next() == Some(SHARE) {
            return Err(TopicError::new(TopicFault::Shared, 0));
        }
        let mut begin = 0;
        for level in text.split('/') {
            let end = begin + level.len();
            check_level(level, end == text.len()).map_err(|error| error.moved(begin))?;
            begin = end + 1;
        }
        Ok(Self(text.into()))
    }

    /// Checks bytes from the network.
    ///
    /// # Errors
    /// The rule that the bytes break, and where.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TopicError> {
        Self::parse(utf8(bytes)?)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the levels, at least one.
    pub fn levels(&self) -> impl Iterator<Item = Level<'_>> + Clone {
        self.0.split('/').map(|level| match level {
            "+" => Level::One,
            "#" => Level::Rest,
            name => Level::Named(name),
        })
    }

    /// Returns whether the filter begins with a wildcard, and so matches no topic that begins with `$`.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.starts_with(['+', '#'])
    }

    /// Returns whether the filter matches a topic.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        self.matches_text(topic.as_str())
    }

    /// Returns whether the filter matches the topic of a message, which was checked when the message was made.
    #[must_use]
    pub fn matches_text(&self, topic: &str) -> bool {
        if self.is_open() && topic.starts_with('$') {
            return false;
        }
        let mut names = topic.split('/');
        for level in self.levels() {
            let name = match level {
                Level::Rest => return true,
                Level::One | Level::Named(_) => names.next(),
            };
            match (level, name) {
                (_, None) => return false,
                (Level::Named(expected), Some(name)) if expected != name => return false,
                _ => {}
            }
        }
        names.next().is_none()
    }

    /// Returns whether some topic matches both filters.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if (self.is_open() && other.is_reserved()) || (other.is_open() && self.is_reserved()) {
            return false;
        }
        let (mut ours, mut theirs) = (self.levels(), other.levels());
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) | (Some(Level::Rest), _) | (_, Some(Level::Rest)) => return true,
                (None, Some(_)) | (Some(_), None) => return false,
                (Some(Level::Named(our)), Some(Level::Named(their))) if our != their => return false,
                _ => {}
            }
        }
    }

    /// Returns whether every topic that matches `other` matches this filter, too. `false` may also mean that nobody can tell.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self.is_open() && other.is_reserved() {
            return false;
        }
        let (mut ours, mut theirs) = (self.levels(), other.levels());
        loop {
            match (ours.next(), theirs.next()) {
                (Some(Level::Rest), _) | (None, None) => return true,
                (Some(Level::One), Some(Level::One | Level::Named(_))) => {}
                (Some(Level::Named(our)), Some(Level::Named(their))) if our == their => {}
                _ => return false,
            }
        }
    }

    fn is_reserved(&self) -> bool {
        self.0.starts_with('$')
    }
}

fn check_level(level: &str, is_last: bool) -> Result<(), TopicError> {
    match level {
        "+" => Ok(()),
        "#" if is_last => Ok(()),
        "#" => Err(TopicError::new(TopicFault::RestNotLast, 0)),
        _ => match level.find(['+', '#']) {
            Some(at) => Err(TopicError::new(TopicFault::WildcardInLevel, at)),
            None => Ok(()),
        },
    }
}

impl FromStr for TopicFilter {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        Self::parse(text)
    }
}

impl AsRef<str> for TopicFilter {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
