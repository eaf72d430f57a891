//! Sending copies, on other paths or in the packets that follow.

use super::copies::{ALLOWANCE, REPEATS_ALONE};
use crate::Time;
use crate::connection::paths::cost::CostPolicy;
use crate::connection::paths::path_set::At;
use crate::connection::paths::scheduler::Scheduling;
use crate::connection::state::Connection;
use crate::session::{Carried, Copied, Copies};
use crate::wire::Writer;

impl Connection {
    fn copied(&self) -> Copied {
        if self.config.scheduler == Scheduling::Redundant { Copied::All } else { Copied::Pressing }
    }

    /// Queues copies of the blocks in the packet just filled on `at` for other paths, where they should go there, too.
    pub(in crate::connection) fn echo(&mut self, now: Time, at: At) {
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
                        let carried = self.building.carried().iter().filter(|carried| is_data(carried));
                        carried.for_each(|carried| self.paths[other].echoes.push(*carried));
                    }
                }
            }
            // Data that was lost before has the same right to a copy as new data.
            Copied::Pressing if special || self.building.is_resending() => {
                let others = self.paths.all().filter(|other| *other != at && self.echoes_on(*other));
                let Some(other) = others.min_by_key(|other| self.paths[*other].recovery.rtt.smoothed())
                else {
                    return;
                };
                for carried in self.building.carried() {
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
        let dear = path.cost.value() > main.cost.value() && self.config.cost_policy != CostPolicy::Ignore;
        self.is_at_hand(at) && !path.lifecycle.is_standby() && !dear
    }

    /// Writes the copies that wait for `at`, whose packets have `most` bytes of room. Returns false if this packet is
    /// full.
    pub(in crate::connection) fn write_echoes(&mut self, at: At, most: usize, out: &mut Writer<'_>) -> bool {
        let copied = self.copied();
        let (echoes, session) = (&mut self.paths[at].echoes, &mut self.session);
        self.building.carry(|carried| echoes.fill(session, copied, most, out, carried))
    }

    /// The deadline rule: messages that could not be retransmitted in time are sent more than once from the start.
    fn press(&mut self, now: Time, at: At) {
        let recovery = &self.paths[at].recovery;
        let needed = recovery.rtt.deadline() + recovery.rtt.smoothed() / 2;
        let alone = !self.paths.all().any(|other| other != at && self.echoes_on(other));
        let copies = if alone { Copies::Following(REPEATS_ALONE) } else { Copies::Elsewhere };
        let budget = ALLOWANCE + self.totals().sent_bytes * u64::from(self.config.deadline_budget) / 100;
        let mut spent =
            self.figures.deadlines.as_ref().map_or(0, |deadlines| deadlines.bytes - deadlines.exempt);
        let mut refused = 0;
        for carried in self.building.carried() {
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
                let deadlines = self.figures.deadlines.get_or_insert_default();
                deadlines.messages += pressed.messages;
                deadlines.bytes += pressed.bytes;
                deadlines.exempt += pressed.exempt;
            }
        }
        if refused > 0 {
            self.figures.deadlines.get_or_insert_default().refused += refused;
        }
    }
}

fn is_data(carried: &Carried) -> bool {
    matches!(carried, Carried::Run { .. } | Carried::Fragment { .. } | Carried::Bytes { .. })
}
