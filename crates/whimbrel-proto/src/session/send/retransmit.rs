//! Data that must be sent again, or may be.

use std::collections::VecDeque;

use super::copied::Copied;
use super::send_item::{PRESSED, SendItem, SendState};
use crate::Time;
use crate::session::message::{Carried, DomainKey};

/// Lost data that waits to be retransmitted.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) enum Lost {
    Run { key: DomainKey, first: u64, count: u64 },
    Parts { key: DomainKey, number: u64 },
    Bytes { key: DomainKey },
}

/// A run of small messages, or of messages with a lifetime, that may be repeated without a sign of loss.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Repeatable {
    pub(in crate::session) key: DomainKey,
    pub(in crate::session) first: u64,
    pub(in crate::session) count: u16,
    /// Number of the packet that carried it last.
    pub(in crate::session) packet: u64,
}

/// Data that must be sent again, or may be.
#[derive(Debug, Default)]
pub(in crate::session) struct Retransmit {
    pub(in crate::session) lost: VecDeque<Lost>,
    pub(in crate::session) repeatable: VecDeque<Repeatable>,
    pub(in crate::session) packet: u64,
    /// Whether messages were begun that are urgent or have a lifetime.
    pub(in crate::session) special: bool,
    /// The first end of a lifetime of the messages whose parts were sent since this was taken, and whether one of them is
    /// urgent.
    pub(in crate::session) expiring_parts: Option<(Time, bool)>,
    /// Lost parts of messages that expire by this time are not sent again.
    pub(in crate::session) in_vain: Time,
    /// Number of extra copies for messages that could not be retransmitted in time. 0: there are no such messages.
    pub(in crate::session) pressed: u8,
    /// Runs with such messages, kept to find out whether the copies were useful.
    pub(in crate::session) pressed_runs: VecDeque<Carried>,
    /// Messages that a copy had delivered by the time their first packet was lost.
    pub(in crate::session) saved: u64,
}

impl Retransmit {
    /// Queues lost messages for retransmission, before newer ones of their domain. After a blackout, probes must bring
    /// what the receiver waits for, which is the oldest.
    pub(in crate::session) fn lose(&mut self, key: DomainKey, number: u64, messages: u64) {
        let at = self.place(key, number);
        if let Some(Lost::Run { key: of, first, count }) =
            at.checked_sub(1).and_then(|at| self.lost.get_mut(at))
            && *of == key
            && *first + *count == number
        {
            *count += messages;
            return;
        }
        self.lost.insert(at, Lost::Run { key, first: number, count: messages });
    }

    /// Queues the lost parts of a message, in the same order.
    pub(in crate::session) fn lose_parts(&mut self, key: DomainKey, number: u64) {
        let at = self.place(key, number);
        self.lost.insert(at, Lost::Parts { key, number });
    }

    /// Returns the position before the newer messages of the domain.
    fn place(&self, key: DomainKey, number: u64) -> usize {
        let newer = |lost: &&Lost| match lost {
            Lost::Run { key: of, first, .. } => *of == key && *first > number,
            Lost::Parts { key: of, number: other } => *of == key && *other > number,
            Lost::Bytes { .. } => false,
        };
        self.lost.len() - self.lost.iter().rev().take_while(newer).count()
    }
}

/// A criterion for the messages that are sent again.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) enum Want {
    Lost,
    /// Repeats without a sign of loss. `pressed` is the limit for messages that could not be retransmitted in time.
    Repeat {
        limit: u8,
        pressed: u8,
        small: u32,
    },
    /// Copies for another path.
    Copy {
        copied: Copied,
        urgent: u8,
    },
}

impl Want {
    pub(in crate::session) fn takes(self, item: &SendItem) -> bool {
        match self {
            Self::Lost => item.state == SendState::Lost,
            Self::Copy { copied, urgent } => {
                let wanted = match copied {
                    Copied::All => true,
                    Copied::Pressing => item.copies == 1 && (item.priority >= urgent || item.has(PRESSED)),
                };
                wanted && item.state == SendState::Flying && item.copies > 0
            }
            Self::Repeat { limit, pressed, small } => {
                let fits = item.is_bundle() || item.length <= small || item.has(PRESSED);
                let limit = if item.has(PRESSED) { limit.max(pressed) } else { limit };
                item.state == SendState::Flying && item.copies > 0 && item.repeats < limit && fits
            }
        }
    }
}
