//! Copies that are sent on purpose: on every path (the redundant scheduler), on a second path (urgent messages), and of
//! messages that could not be retransmitted in time (the deadline rule).

use std::collections::VecDeque;

use crate::session::{Carried, Copied, Flow, Session};
use crate::wire::Writer;

/// The most copies that wait for a path. The oldest are dropped where a path is slower than the one it repeats.
const MOST_ECHOES: usize = 256;
/// How many copies the deadline rule adds if only one path can carry them: they go in the packets that follow. If there
/// is a second path, a single copy goes there.
pub(in crate::connection) const REPEATS_ALONE: u8 = 2;
/// The bytes that the deadline rule may spend before anything was sent.
pub(in crate::connection) const ALLOWANCE: u64 = 4096;

/// Blocks sent on another path whose copies are to go on this one.
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

    /// Writes the copies that are still useful and fit. A copy that would not even fit into a packet with `most` bytes
    /// of room is dropped. Returns false if this packet is full.
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

/// The cost and the benefit of the deadline rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineStats {
    /// Messages sent redundantly because they could not have been retransmitted in time.
    pub messages: u64,
    /// Bytes that their copies may take.
    pub bytes: u64,
    /// The part of `bytes` for urgent messages, which the budget does not count.
    pub exempt: u64,
    /// Messages whose first packet was lost, and which a copy had delivered by then.
    pub saved: u64,
    /// Messages that were not sent redundantly because the budget did not allow it.
    pub refused: u64,
}
