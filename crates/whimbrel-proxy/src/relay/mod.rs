//! Sockets, streams and sessions: the thin shell around [`flow`](crate::flow).

mod channel;
mod connect;
mod direct;
mod far;
mod hand_over;
mod limits;
mod metrics;
mod near;
mod peer;
mod record;
mod session;
mod shares;
mod socket;
mod totals;
mod udp;

pub(crate) use direct::DirectFlow;
pub use limits::Limits;
pub use near::{Opened, Refused};
pub use peer::{Peer, PeerState};
pub use record::{FlowRecord, Flows};
pub use session::{Session, SessionContext};
pub use udp::{Program, Programs};
pub(crate) use udp::{Reply, replies};
