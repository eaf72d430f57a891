//! Counters of a session.

use super::message::Outcome;

/// Messages and bytes by outcome, since the session began.
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
    /// Messages sent, with and without tags.
    pub total: Counters,
    /// Messages that wait to be sent for the first time.
    pub queue_messages: usize,
    /// Bytes of the messages that wait to be sent for the first time.
    pub queue_bytes: u64,
    /// Messages sent and not yet resolved.
    pub outstanding: u64,
    /// Messages and fragments sent again because they were lost.
    pub retransmitted: u64,
    /// Messages sent again without a sign of loss.
    pub repeated: u64,
    /// Messages received, complete and in their turn.
    pub received: u64,
    /// Bytes of the messages received.
    pub received_bytes: u64,
    /// Messages and fragments received more than once.
    pub duplicates: u64,
    /// Sequenced messages that arrived after delivery had passed over them.
    pub late: u64,
    /// Unreliable messages discarded unread on streams that keep only the latest.
    pub discarded: u64,
    /// Bytes of the messages discarded.
    pub discarded_bytes: u64,
    /// Messages received and not yet read.
    pub unread: u64,
    /// Credit that streams have beyond their shares, bytes: what the peer may still send and what is unread.
    /// `Mocket::stream_credit` of the crate `whimbrel` lists which stream holds it.
    pub credit_beyond_shares: u64,
    /// Streams on which the peer has used up its credit because nobody here reads.
    pub unread_streams: u64,
    /// Streams on which data waits to be sent because the peer's application does not read.
    pub blocked_streams: u64,
    /// Byte-stream bytes accepted for sending.
    pub stream_bytes_sent: u64,
    /// Byte-stream bytes read.
    pub stream_bytes_read: u64,
}
