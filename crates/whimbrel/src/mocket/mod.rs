//! The mocket: an application's handle on a session.

mod delivery;
mod handle;
mod receiving;
mod sender;
mod sending;
mod streams;
mod tags;

pub use delivery::Delivery;
pub use handle::{Mocket, Stats};
pub use sender::{Sender, SenderBuilder};
pub(crate) use sending::end_of;
pub use tags::TagHandle;
