//! The CLOSE_PATH of a closed path. The peer may send there until it has that.

use crate::PathId;
use crate::connection::control::control_queue::ControlQueue;
use crate::wire::{Writer, block};

/// The notice to the peer that a path is closed, and how far it got.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct ClosingNotice {
    /// The number of the CLOSE_PATH that was queued after the path was closed.
    told: Option<u32>,
    /// The number of an earlier CLOSE_PATH that was withdrawn when the path was reopened. It may still arrive.
    recalled: Option<u32>,
}

impl ClosingNotice {
    /// Queues a CLOSE_PATH, unless the peer was told before.
    pub(in crate::connection) fn tell(&mut self, id: PathId, control: &mut ControlQueue) {
        if self.told.is_some() {
            return;
        }
        self.told = Some(match self.recalled.take() {
            Some(recalled) if control.holds_notice(recalled) => {
                control.renew(recalled);
                recalled
            }
            _ => control.notice(write_close_path(id)),
        });
    }

    /// Returns whether the peer is not known to have been told.
    pub(in crate::connection) fn is_open(self, control: &ControlQueue) -> bool {
        self.told.is_none_or(|told| control.holds_notice(told))
    }

    /// Withdraws the CLOSE_PATH, because the path is reopened.
    pub(in crate::connection) fn recall(&mut self, control: &mut ControlQueue) {
        self.recalled = self.told.take();
        if let Some(recalled) = self.recalled {
            control.withdraw(recalled);
        }
    }

    /// Returns whether the withdrawn CLOSE_PATH has arrived after all.
    pub(in crate::connection) fn came_after_all(self, control: &ControlQueue) -> bool {
        self.recalled.is_some_and(|recalled| !control.holds_notice(recalled))
    }

    /// Ends the wait for the withdrawn CLOSE_PATH, which has arrived. If the path was closed once more, the peer need
    /// not be told again.
    pub(in crate::connection) fn settle_recalled(&mut self, is_closed: bool) {
        let recalled = self.recalled.take();
        if is_closed {
            self.told = self.told.or(recalled);
        }
    }
}

pub(in crate::connection) fn write_close_path(id: PathId) -> Vec<u8> {
    let mut out = Vec::with_capacity(6);
    let mut writer = Writer::new(&mut out, usize::MAX);
    writer.u8(block::CLOSE_PATH);
    writer.varint(u64::from(id.0));
    out
}
