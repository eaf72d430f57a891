//! Copies sent on purpose: on every path (the redundant scheduler), on a second one (urgent messages), and of what could not be sent
//! again in time (the deadline rule).

use std::collections::VecDeque;

use super::{At, Connection, CostPolicy, Scheduling, SentBlock};
use crate::Time;
use crate::session::{Carried, Copied, Copies, Flow, Session};
use crate::wire::Writer;

/// Copies that wait for a path; the oldest give way where a path is slower than what it is to repeat.
const MOST_ECHOES: usize = 256;
/// Copies beyond the first by the deadline rule: with a second path one goes there, alone a path has two in packets that follow.
const REPEATS_ALONE: u8 = 2;
/// What the deadline rule may spend before anything was sent, bytes.
const ALLOWANCE: u64 = 4096;

/// What went on another path and is to go here too.
#[derive(Debug, Default)]
#[allow(clippy::box_collection, reason = "rarely there: not worth its room in every idle connection")]
pub(super) struct Echoes(Option<Box<VecDeque<Carried>>>);

impl Echoes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|echoes| echoes.is_empty())
    }

    fn push(&mut self, carried: Carried) {
        let echoes = self.0.get_or_insert_default();
        if echoes.len() == MOST_ECHOES {
            echoes.pop_front();
        }
        echoes.push_back(carried);
    }

    /// Writes what is still of use and fits into a packet with `most` bytes of room; false if this one is full.
    fn fill(
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

impl Connection {
    fn copied(&self) -> Copied {
        if self.config.scheduler == Scheduling::Redundant { Copied::All } else { Copied::Pressing }
    }

    /// What the packet just filled on `at` carried goes on other paths too, where it should.
    pub(super) fn echo(&mut self, now: Time, at: At) {
        let special = self.session.take_special();
        if special {
            self.press(now, at);
        }
        if self.paths.len() == 1 {
            return;
        }
        match self.copied() {
            Copied::All => {
                for other in self.paths.all() {
                    if other != at && self.echoes_on(other) {
                        let carried = self.scratch_carried.iter().filter(|carried| is_data(carried));
                        carried.for_each(|carried| self.paths[other].echoes.push(*carried));
                    }
                }
            }
            // What was lost before has no less right to it than what is new.
            Copied::Pressing if special || self.resending => {
                let others = self.paths.all().filter(|other| *other != at && self.echoes_on(*other));
                let Some(other) = others.min_by_key(|other| self.paths[*other].recovery.rtt.smoothed())
                else {
                    return;
                };
                for carried in &self.scratch_carried {
                    if self.session.is_pressing(carried) {
                        self.paths[other].echoes.push(*carried);
                    }
                }
            }
            Copied::Pressing => {}
        }
    }

    fn echoes_on(&self, at: At) -> bool {
        let (path, main) = (&self.paths[at], &self.paths[self.paths.main()]);
        let dear = path.cost > main.cost && self.config.cost_policy != CostPolicy::Ignore;
        self.is_at_hand(at) && !path.lifecycle.is_standby() && !dear
    }

    /// Writes what waits to be repeated on `at`, whose packets have `most` bytes of room; false if this one is full.
    pub(super) fn write_echoes(&mut self, at: At, most: usize, out: &mut Writer<'_>) -> bool {
        let copied = self.copied();
        self.scratch_carried.clear();
        let room =
            self.paths[at].echoes.fill(&mut self.session, copied, most, out, &mut self.scratch_carried);
        self.scratch_items.extend(self.scratch_carried.iter().map(|carried| SentBlock::Session(*carried)));
        room
    }

    /// The deadline rule: who could not be sent again in time is sent more than once at once.
    fn press(&mut self, now: Time, at: At) {
        let recovery = &self.paths[at].recovery;
        let needed = recovery.rtt.deadline() + recovery.rtt.smoothed() / 2;
        let alone = !self.paths.all().any(|other| other != at && self.echoes_on(other));
        let copies = if alone { Copies::Following(REPEATS_ALONE) } else { Copies::Elsewhere };
        let budget = ALLOWANCE + self.totals().sent_bytes * u64::from(self.config.deadline_budget) / 100;
        let mut spent = self.deadlines.as_ref().map_or(0, |deadlines| deadlines.bytes - deadlines.exempt);
        let mut refused = 0;
        for carried in &self.scratch_carried {
            let pressed = self.session.press(now, carried, needed, copies, |cost| {
                let afforded = spent + cost <= budget;
                if afforded {
                    spent += cost;
                } else {
                    refused += 1;
                }
                afforded
            });
            if pressed.messages > 0 {
                let deadlines = self.deadlines.get_or_insert_default();
                deadlines.messages += pressed.messages;
                deadlines.bytes += pressed.bytes;
                deadlines.exempt += pressed.exempt;
            }
        }
        if refused > 0 {
            self.deadlines.get_or_insert_default().refused += refused;
        }
    }
}

fn is_data(carried: &Carried) -> bool {
    matches!(carried, Carried::Run { .. } | Carried::Fragment { .. } | Carried::Bytes { .. })
}
