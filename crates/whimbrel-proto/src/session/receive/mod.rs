//! The receiving side, from a block to what the application reads.

pub(in crate::session) mod assembly;
pub(in crate::session) mod batch;
pub(in crate::session) mod bytes_in;
pub(in crate::session) mod far;
pub(in crate::session) mod gaps;
pub(in crate::session) mod inbound;
pub(in crate::session) mod inbox;
pub(in crate::session) mod late;
pub(in crate::session) mod lateness;
pub(in crate::session) mod latest;
pub(in crate::session) mod notices_in;
pub(in crate::session) mod opening;
pub(in crate::session) mod others;
pub(in crate::session) mod passing;
pub(in crate::session) mod ranges;
pub(in crate::session) mod reading;
pub(in crate::session) mod receiving;
pub(in crate::session) mod run;
pub(in crate::session) mod scattered;
pub(in crate::session) mod waiting;
pub(in crate::session) mod window;

use assembly::Spares;
use gaps::Gaps;
use inbox::Inbox;

use super::tag_stats::ReceivedTags;

/// Received state that does not belong to one stream only.
#[derive(Debug, Default)]
pub(in crate::session) struct Incoming {
    pub(in crate::session) inbox: Inbox,
    /// Whether a `Readable` event waits to be polled.
    pub(in crate::session) readable_told: bool,
    pub(in crate::session) received_tags: ReceivedTags,
    /// Domains in which a whole message waits behind a gap.
    pub(in crate::session) gaps: Gaps,
    pub(in crate::session) spares: Spares,
}
