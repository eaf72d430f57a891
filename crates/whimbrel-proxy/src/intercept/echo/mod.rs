//! ICMP echo of programs that know nothing of the proxy: requests come as packets, and so do their replies.

mod echoed;
mod echoes;
mod icmp;

pub(super) use echoes::{EchoOutlet, Echoes};
