//! What the far end tells the near end, a line of JSON each.

use serde::{Deserialize, Serialize};

/// A line on the far end's standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// Where it can be reached; always the first.
    Listening {
        /// `whimbrel://KEY@host:port`.
        url: String,
    },
    /// What a lane has received so far.
    Progress {
        /// Which.
        lane: String,
        /// Payload bytes.
        bytes: u64,
        /// Messages; none of a file.
        messages: u64,
    },
    /// What a lane has received in all; its last line.
    Report(Report),
}

/// What came through one connection. Times are nanoseconds of the machine's monotonic clock.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The connection's name, from its opening message.
    pub(crate) lane: String,
    /// Bytes of the file, or of bulk messages.
    pub(crate) bytes: u64,
    /// Of the file, in hexadecimal.
    pub(crate) sha256: String,
    /// The last of the file or of bulk.
    pub(crate) last_ns: u64,
    /// Longest time in which nothing of the file came.
    pub(crate) longest_gap_ns: u64,
    /// Different bulk messages.
    pub(crate) bulk_messages: u64,
    /// Messages that came a second time. There must be none.
    pub(crate) duplicated: u64,
    /// Stamped messages in the order of their arrival.
    pub(crate) arrivals: Vec<Arrival>,
    /// What went wrong.
    pub(crate) error: Option<String>,
}

/// One message that arrived.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Arrival {
    /// Which kind.
    pub(crate) kind: u32,
    /// Counted by the sender from 0.
    pub(crate) number: u64,
    /// When the sender called `send`.
    pub(crate) sent_ns: u64,
    /// When the receiver had it.
    pub(crate) arrived_ns: u64,
}

impl Arrival {
    /// Seconds from the send call to the arrival.
    pub(crate) fn age_s(&self) -> f64 {
        self.arrived_ns.saturating_sub(self.sent_ns) as f64 / 1e9
    }
}
