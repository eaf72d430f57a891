//! A place in a log.

/// A place in a log's order of arrival. If the end of a log is cut off when it is opened, other messages get the places that were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);
