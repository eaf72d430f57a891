//! Handing a running proxy over to another process, without the end of a flow.
//!
//! The old process lets nobody in any more, waits until no flow is being opened, takes its flows apart, and suspends its
//! sessions. All of it is a [`Parcel`]. The new process binds the same addresses, resumes the sessions, and puts the flows
//! together again. Until it says that it could, the old one can open the parcel itself.

mod dialog;
mod parcel;
mod wire;

pub use dialog::Dialog;
pub use parcel::Parcel;
pub(crate) use parcel::{Claimed, SessionNote, SessionParcel};
pub use wire::HandOverError;
