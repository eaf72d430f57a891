//! Durable subscriptions: what each is told of a log.
//!
//! A [`Reader`] is a durable subscription's part in one channel: a position in the log, which is the channel's order of arrival, and a
//! coverage. It reads from the position and skips what it covers, whether that is years old or of this moment. Whoever owns it hands it
//! [`Batch`](crate::store::Batch)es of records from the disk, and takes what is to be told. What was told and not acknowledged is bounded
//! by its [`Window`].
//!
//! Nothing here knows a disk or a clock.

mod copies;
mod reader;
pub(crate) mod succession;
#[cfg(test)]
mod tests;
pub(crate) mod wanted;
mod window;

pub use copies::Copies;
pub use reader::{Begin, Next, Reader, TooManyGaps};
pub use succession::{Claim, Known, Life, Step};
pub use wanted::wanted;
pub use window::{WINDOW, WINDOW_BYTES, Window};
