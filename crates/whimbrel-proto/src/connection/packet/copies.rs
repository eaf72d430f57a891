//! Copies sent on purpose: on every path (the redundant scheduler), on a second one (urgent messages), and of what could not be sent
//! again in time (the deadline rule).

use std::collections::VecDeque;

use crate::session::{Carried, Copied, Flow, Session};
use crate::wire::Writer;

/// Copies that wait for a path; the oldest give way where a path is slower than what it is to repeat.
const MOST_ECHOES: usize = 256;
/// Copies beyond the first by the deadline rule: with a second path one goes there, alone a path has two in packets that follow.
pub(in crate::connection) const REPEATS_ALONE: u8 = 2;
/// What the deadline rule may spend before anything was sent, bytes.
pub(in crate::connection) const ALLOWANCE: u64 = 4096;

/// What went on another path and is to go here too.
#[derive(Debug, Default)]
#[allow(clippy::box_collection, reason = "rarely there: not worth its room in every idle connection")]
pub(in crate::connection) struct Echoes(Option<Box<VecDeque<Carried>>>);

impl Echoes {
    pub(in crate::connection) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|echoes| echoes.is_empty())
    }

    pub(in crate::connection) fn push(&mut self, carried: Carried) {
        let echoes = self.0.get_or_insert_default();
        if echoes.len() == MOST_ECHOES {
            echoes.pop_front();
        }
        echoes.push_back(carried);
    }

    /// Writes what is still of use and fits into a packet with `most` bytes of room; false if this one is full.
    pub(in crate::connection) fn fill(
        &mut self,
        session: &mut Session,
        copied: Copied,
        most: usize,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> bool {
        let Some(echoes) = &mut self.0 else { return true };
        while let Some(echo) = echoes.front_mut() {
            let (left, flow) = session.fill_copy(echo, copied, most, out, carried);
            match left {
                Some(left) => *echo = left,
                None => drop(echoes.pop_front()),
            }
            if flow == Flow::Full {
                return false;
            }
        }
        true
    }
}

/// What the deadline rule cost and saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineStats {
    /// Messages sent redundantly because they could not have been sent again in time.
    pub messages: u64,
    /// Bytes that their copies may take.
    pub bytes: u64,
    /// Of these, those of urgent messages, which the budget does not count.
    pub exempt: u64,
    /// Messages whose first packet was lost and that a copy had brought by then.
    pub saved: u64,
    /// Messages that would have been, but for the budget.
    pub refused: u64,
}
