//! The bound of a report.

/// The most rows of one kind of clients.
pub const MOST_ROWS: usize = 100;
