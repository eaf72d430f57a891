//! What is to be, or may be, sent again.

use std::collections::VecDeque;

use super::copied::Copied;
use super::send_item::{PRESSED, SendItem, SendState};
use crate::session::message::{Carried, DomainKey};

/// Something lost that waits to be sent again.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) enum Lost {
    Run { key: DomainKey, first: u64, count: u64 },
    Parts { key: DomainKey, number: u64 },
    Bytes { key: DomainKey },
}

/// Whole messages sent once, small ones or with a lifetime, that may be sent again on the chance.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Repeatable {
    pub(in crate::session) key: DomainKey,
    pub(in crate::session) first: u64,
    pub(in crate::session) count: u16,
    /// The fill that sent it last.
    pub(in crate::session) packet: u64,
}

/// What is to be, or may be, sent again.
#[derive(Debug, Default)]
pub(in crate::session) struct Retransmit {
    pub(in crate::session) lost: VecDeque<Lost>,
    pub(in crate::session) repeatable: VecDeque<Repeatable>,
    pub(in crate::session) packet: u64,
    /// Messages were begun that are urgent or have a lifetime.
    pub(in crate::session) special: bool,
    /// Copies beyond the first of messages that could not be sent again in time; 0: there have been none.
    pub(in crate::session) pressed: u8,
    /// Runs with such messages, to see whether the copies were of use.
    pub(in crate::session) pressed_runs: VecDeque<Carried>,
    /// Messages whose first packet was lost and that a copy had brought by then.
    pub(in crate::session) saved: u64,
}

impl Retransmit {
    /// Queues messages to be sent again, before those of its domain that are newer: after a blackout the probes must bring what
    /// the receiver waits for, which is the oldest.
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

    /// Queues what is lost of a message in parts, in the same order.
    pub(in crate::session) fn lose_parts(&mut self, key: DomainKey, number: u64) {
        let at = self.place(key, number);
        self.lost.insert(at, Lost::Parts { key, number });
    }

    /// Before the newer ones of its domain.
    fn place(&self, key: DomainKey, number: u64) -> usize {
        let newer = |lost: &&Lost| match lost {
            Lost::Run { key: of, first, .. } => *of == key && *first > number,
            Lost::Parts { key: of, number: other } => *of == key && *other > number,
            Lost::Bytes { .. } => false,
        };
        self.lost.len() - self.lost.iter().rev().take_while(newer).count()
    }
}

/// Which messages that were sent are to be sent again.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) enum Want {
    Lost,
    /// `pressed`: the limit of those that could not be sent again in time.
    Repeat {
        limit: u8,
        pressed: u8,
        small: u32,
    },
    /// On another path.
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
