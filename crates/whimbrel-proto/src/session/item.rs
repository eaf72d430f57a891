//! A message on its way out, from the send call to its outcome.

use bytes::Bytes;

use super::config::MESSAGE_CHARGE;
use super::message::Outcome;
use super::options::RouteClass;
use crate::{MessageId, Time};

pub(super) const NO_TAG: u32 = u32::MAX;

pub(super) const RELIABLE: u8 = 1;
pub(super) const TRACKED: u8 = 2;
pub(super) const CONFIRM: u8 = 4;
pub(super) const PPID: u8 = 8;
/// Cancelled, replaced or expired while it waited in a lane; its place remains.
pub(super) const DEAD: u8 = 16;
/// It went in parts.
pub(super) const PARTED: u8 = 32;

/// Where a message that was sent at least once stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Sent or to be sent; of a message in parts the parts know more.
    Flying,
    /// All copies lost, to be sent again.
    Lost,
    /// Given up; the peer's answer to SKIP decides.
    Skipping(Outcome),
    /// Resolved.
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) payload: Bytes,
    pub(super) id: MessageId,
    /// `Time::MAX`: never.
    pub(super) expires: Time,
    pub(super) tag: u32,
    pub(super) ppid: u32,
    /// Length of the payload, which may have been dropped.
    pub(super) length: u32,
    /// Cross-sequenced: how far below this number the latest reliable one is; 0: none that matters.
    pub(super) reliable_gap: u32,
    /// None: the stream's.
    pub(super) route: Option<RouteClass>,
    pub(super) priority: u8,
    pub(super) flags: u8,
    pub(super) state: State,
    /// Copies in flight.
    pub(super) copies: u8,
    /// Copies sent beyond the first, on purpose.
    pub(super) repeats: u8,
}

impl Item {
    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn charge(&self) -> u64 {
        u64::from(self.length) + MESSAGE_CHARGE
    }

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Flying | State::Lost)
    }

    /// May ride in one run behind `head`.
    #[inline]
    pub(super) fn runs_with(&self, head: &Self) -> bool {
        self.tag == head.tag
            && self.flags == head.flags
            && self.priority == head.priority
            && self.ppid == head.ppid
    }
}
