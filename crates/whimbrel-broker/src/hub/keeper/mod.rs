//! The durable side of a hub: its store, and the durable subscriptions that are attached.
//!
//! Nothing here is called on a task that must not wait, unless it says so: it reads and writes the disk.

mod attaching;
mod attachment;
mod confirmed;
pub(super) mod core;
mod count;
mod ending;
mod learning;
mod names;
mod opening;
mod place;
mod presence;
mod refusals;
mod removed;
mod report;
pub(in crate::hub) mod session_name;
mod sessions;
pub(super) mod store_place;
mod trimming;

pub use attaching::{AttachDurable, MOST_OF_CLIENT};
pub use attachment::DurableAttachment;
pub use report::{DurableReport, LogReport};
pub use session_name::SessionName;
pub use sessions::KeptSession;
pub use store_place::StorePlace;
