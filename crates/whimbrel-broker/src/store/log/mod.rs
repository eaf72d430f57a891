//! The log of one durable channel.
//!
//! Appenders leave encoded records in the `queue`. The `writer`, a thread, takes all that wait at once, writes them behind the last segment,
//! synchronises, takes note of them in the index, and tells the `ticket`s. Readers see what is stored, never more.

mod core;
mod file_names;
mod first;
mod handles;
mod index;
mod later;
mod listener;
mod queue;
mod reading;
mod recovery;
mod salvage;
mod scan;
mod seal;
mod segments;
mod shared;
mod tail;
#[cfg(test)]
mod tests;
mod ticket;
mod trimming;
mod window;
mod within;
mod writer;

pub use self::core::{Figures, Log};
pub(crate) use later::Later;
pub use reading::{Batch, Most, Record};
pub(super) use recovery::OpenLog;
pub use salvage::{Salvaged, salvage};
pub use ticket::Ticket;
pub use trimming::Trimmed;
