//! Counters.

use super::message::Outcome;

/// Messages and bytes by what became of them, since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub struct Counters {
    pub queued: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub taken: u64,
    pub expired: u64,
    pub cancelled: u64,
    pub replaced: u64,
    pub lost: u64,
    pub unknown: u64,
}

impl Counters {
    #[inline]
    pub(super) fn count(&mut self, outcome: Outcome, messages: u64, bytes: u64) {
        match outcome {
            Outcome::Delivered => {
                self.delivered += messages;
                self.delivered_bytes += bytes;
            }
            Outcome::Taken => self.taken += messages,
            Outcome::Expired => self.expired += messages,
            Outcome::Cancelled => self.cancelled += messages,
            Outcome::Replaced => self.replaced += messages,
            Outcome::Lost => self.lost += messages,
            Outcome::Unknown => self.unknown += messages,
        }
    }
}

/// A session's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Messages sent, all tags and none.
    pub total: Counters,
    /// Messages waiting that were never sent.
    pub queue_messages: usize,
    /// Bytes of them.
    pub queue_bytes: u64,
    /// Messages sent and not resolved.
    pub outstanding: u64,
    /// Messages and fragments sent again because they were lost.
    pub retransmitted: u64,
    /// Messages sent again on the chance.
    pub repeated: u64,
    /// Messages received, complete and in their turn.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Messages and fragments that had come before.
    pub duplicates: u64,
    /// Sequenced messages that came after their gap was passed over.
    pub late: u64,
    /// Unreliable messages discarded unread, where a stream keeps the latest only.
    pub discarded: u64,
    /// Bytes of them.
    pub discarded_bytes: u64,
    /// Messages received and not yet read.
    pub unread: u64,
    /// Credit that streams have beyond their shares, bytes: what the peer may send and what of it is unread. Who holds it, see
    /// [`crate::session::state::Session::stream_credit`].
    pub credit_beyond_shares: u64,
    /// Streams on which the peer has used up its credit, and nobody reads.
    pub unread_streams: u64,
    /// Streams on which something waits to be sent because the peer's application does not read.
    pub blocked_streams: u64,
    /// Byte-stream bytes accepted for sending.
    pub stream_bytes_sent: u64,
    /// Byte-stream bytes read.
    pub stream_bytes_read: u64,
}
