//! A place in a log.

/// A place in a log's order of arrival. It means nothing after the log was opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);
