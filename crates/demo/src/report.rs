//! The far end's reports to the near end, one line of JSON each.

use serde::{Deserialize, Serialize};

/// A line on the far end's standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The address at which it can be reached; always the first line.
    Listening {
        /// The URL `whimbrel://KEY@host:port`.
        url: String,
    },
    /// The amount that a lane has received so far.
    Progress {
        /// The lane's name.
        lane: String,
        /// The payload bytes received.
        bytes: u64,
        /// The messages received; 0 for a file.
        messages: u64,
    },
    /// All that a lane has received; its last line.
    Report(Report),
}

/// The data that arrived through one connection. Times are in nanoseconds of the machine's monotonic clock.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The connection's name, from its opening message.
    pub(crate) lane: String,
    /// The bytes of the file or of bulk messages.
    pub(crate) bytes: u64,
    /// The SHA-256 of the file, in hexadecimal.
    pub(crate) sha256: String,
    /// When the last part of the file or of bulk arrived.
    pub(crate) last_ns: u64,
    /// The longest time during which nothing of the file arrived.
    pub(crate) longest_gap_ns: u64,
    /// The number of different bulk messages.
    pub(crate) bulk_messages: u64,
    /// Messages that arrived a second time. There must be none.
    pub(crate) duplicated: u64,
    /// Stamped messages in the order of their arrival.
    pub(crate) arrivals: Vec<Arrival>,
    /// The error, if there was one.
    pub(crate) error: Option<String>,
}

/// A message that arrived.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Arrival {
    /// Its kind.
    pub(crate) kind: u32,
    /// Its number; the sender counts from 0.
    pub(crate) number: u64,
    /// When the sender called `send`.
    pub(crate) sent_ns: u64,
    /// When the receiver got it.
    pub(crate) arrived_ns: u64,
}

impl Arrival {
    /// The seconds from the `send` call to the arrival.
    pub(crate) fn age_s(&self) -> f64 {
        self.arrived_ns.saturating_sub(self.sent_ns) as f64 / 1e9
    }
}
