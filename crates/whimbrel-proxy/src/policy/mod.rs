//! Decisions: what a peer may open here. Pure: it opens no sockets and looks nothing up.

mod permit;
mod ports;
mod special;

pub use permit::{InvalidPermit, Permit, Permits};
pub use ports::Ports;
pub use special::is_special;
