//! Tells which of two messages is newer.

use whimbrel_pubsub::message::{Hlc, Message, Origin, Publication, Stamp};

/// The mark by which a message is told from an older one: its publisher's number if both have the same publisher, else when it was published and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newness {
    publication: Option<Publication>,
    published: Hlc,
    origin: Origin,
    sequence: u64,
}

impl Newness {
    /// Returns the newness of a message.
    pub fn of(stamp: &Stamp, message: &Message) -> Self {
        let Stamp { origin, sequence, published, .. } = *stamp;
        Self { publication: message.publication(), published, origin, sequence }
    }

    /// Whether this was written after `other`, by the brokers' clocks. All brokers agree on it, since it orders all messages.
    pub fn is_written_after(&self, other: &Self) -> bool {
        (self.published, self.origin, self.sequence) > (other.published, other.origin, other.sequence)
    }

    /// Whether this replaces `other` for a subscriber. A publisher's number says so before clocks do.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        match (self.publication, other.publication) {
            (Some(this), Some(that)) if this.publisher == that.publisher && this.number != that.number => {
                this.number > that.number
            }
            _ => self.is_written_after(other),
        }
    }
}
