//! The special properties of the proxy's sockets: a mark, so that interception leaves them alone, and addresses that are not
//! this host's, in which it speaks for programs.

mod mark;
mod transparent;

pub(crate) use mark::{Mark, connect_as, connect_marked, set_mark};
pub(crate) use transparent::{bind_udp, may_speak};
