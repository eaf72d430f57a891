//! What two proxies tell each other: see docs/proxy-protocol.md.

mod answer;
mod datagram;
mod fields;
mod manner;
mod opening;
mod target;

pub use answer::{Answer, AnswerReader, Outcome};
pub use datagram::{Announcement, Context, Datagram, Refusal};
pub use fields::Malformed;
pub use manner::Manner;
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
}
