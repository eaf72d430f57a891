//! What is to be, or may be, sent again.

use std::collections::VecDeque;

use super::item::{Item, State};
use super::message::DomainKey;

/// Something lost that waits to be sent again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    Run { key: DomainKey, first: u64, count: u64 },
    Parts { key: DomainKey, number: u64 },
    Bytes { key: DomainKey },
}

/// Small whole messages sent once, that may be sent again on the chance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeatable {
    pub(super) key: DomainKey,
    pub(super) first: u64,
    pub(super) count: u16,
    /// The fill that sent it first.
    pub(super) packet: u64,
}

/// What is to be, or may be, sent again.
#[derive(Debug, Default)]
pub(super) struct Again {
    pub(super) lost: VecDeque<Lost>,
    pub(super) repeatable: VecDeque<Repeatable>,
    pub(super) packet: u64,
}

impl Again {
    /// Queues messages to be sent again, before those of its domain that are newer: after a blackout the probes must bring what
    /// the receiver waits for, which is the oldest.
    pub(super) fn lose(&mut self, key: DomainKey, number: u64, messages: u64) {
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
    pub(super) fn lose_parts(&mut self, key: DomainKey, number: u64) {
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
pub(super) enum Want {
    Lost,
    Repeat { limit: u8, small: u32 },
}

impl Want {
    pub(super) fn takes(self, item: &Item) -> bool {
        match self {
            Self::Lost => item.state == State::Lost,
            Self::Repeat { limit, small } => {
                let fits = item.is_bundle() || item.length <= small;
                item.state == State::Flying && item.copies > 0 && item.repeats < limit && fits
            }
        }
    }
}
