//! Subscriptions that come, read, and go.
//!
//! A [`Reader`] is a subscription's part in one channel: a position in the order of arrival, and a coverage. It reads from the position
//! and skips what it covers. Recovery reads from behind, live reads at the tail, and nothing happens between the two. Call
//! [`Reader::read`] whenever the subscriber has room for more. A reader has no queue, so a slow one holds nothing; what waits for it is in
//! the buffer.
//!
//! Nothing is kept when the subscriber has gone: its coverage comes back with it.

mod arriving;
mod counting;
mod judging;
mod passage;
mod reader;
pub(crate) mod reading;
mod retaining;
mod telling;
mod verdict;
mod walk;
mod wish;

pub use passage::Passage;
pub use reader::{Read, Reader};
pub use wish::{From, Recover, Slow, Wanted, Wish};
