//! The far end of ICMP echo: requests of a peer go out by a socket of this end, and their replies come back.

mod asked;
mod packet;
mod pings;

pub(super) use pings::Pings;
