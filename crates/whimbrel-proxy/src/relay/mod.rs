//! Sockets, streams and sessions: the thin shell around [`flow`](crate::flow).

mod allowance;
mod bond;
mod caps;
mod carrier;
mod channel;
mod connect;
mod dictionaries;
mod direct;
mod echo;
mod far;
mod hand_over;
mod introduce;
mod limits;
mod mark;
mod metrics;
mod near;
mod network;
mod over;
mod own_ports;
mod packing;
mod parking;
mod peer;
mod reach;
mod record;
mod restarts;
mod session;
mod shares;
mod socket;
mod steering;
mod totals;
mod udp;
mod wish;

#[cfg(target_os = "linux")]
pub(crate) use allowance::Allowance;
pub(crate) use caps::cap_of;
pub(crate) use channel::Saved;
pub use dictionaries::{Dictionaries, DictionaryError};
pub(crate) use direct::DirectFlow;
pub use limits::Limits;
#[cfg(target_os = "linux")]
pub(crate) use mark::set_mark;
pub(crate) use mark::{Mark, connect_marked};
pub use near::{Opened, Refused};
pub(crate) use network::network;
pub(crate) use over::Over;
pub(crate) use own_ports::OwnPorts;
pub(crate) use packing::Unpacked;
pub(crate) use peer::{Dialler, GONE_AFTER, KeptOut};
pub use peer::{Peer, PeerState};
pub(crate) use record::FlowState;
pub use record::{FlowRecord, Flows};
pub use session::{Session, SessionContext};
pub(crate) use socket::{Socket, Userspace, drop_front};
pub(crate) use steering::Steering;
pub(crate) use udp::{EchoReply, LONGEST_GATHER, Reply, replies};
pub use udp::{Program, Programs};
