//! The messages between two proxies, which docs/proxy-protocol.md specifies.

mod answer;
mod capabilities;
mod datagram;
mod echo;
mod fields;
mod gathered;
mod manner;
mod opening;
mod target;

pub use answer::{Agreement, Answer, AnswerReader, Outcome};
pub use capabilities::Capabilities;
pub use datagram::{Announcement, Context, Datagram, ProxyInstance, Refusal};
pub use echo::{Echo, EchoError, EchoId};
pub use fields::Malformed;
pub use gathered::{Gathered, MOST_GATHERED, MOST_PARTS};
pub use manner::{Cap, Compression, Manner};
pub use opening::Opening;
pub use target::{Host, InvalidTarget, Target};

/// The application protocol of a session between two proxies.
pub const PROTOCOL: &str = "whimbrel-proxy/1";

/// The codes with which a proxy resets or stops a stream.
pub mod codes {
    /// The program's connection was reset.
    pub const RESET: u64 = 1;
    /// Nothing was sent in either direction for too long.
    pub const IDLE: u64 = 2;
    /// The peer broke the protocol.
    pub const PROTOCOL: u64 = 3;
    /// A rule of the near end does not allow the flow any more.
    pub const RULE: u64 = 4;
    /// The peer could not be reached for as long as a rule of the near end allows.
    pub const OUTAGE: u64 = 5;
    /// The peer has opened too many streams. Only the tcp connector uses it.
    pub const LIMIT: u64 = 6;
}
