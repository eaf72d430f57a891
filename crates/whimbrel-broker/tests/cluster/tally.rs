//! Counts of the events in some runs.

use whimbrel_pubsub::coverage::{Fate, Told};

/// Counts of the events in some runs, which show that everything happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) published: u64,
    pub(crate) repeated: u64,
    pub(crate) delivered: u64,
    pub(crate) recovered: u64,
    pub(crate) late: u64,
    pub(crate) retained: u64,
    pub(crate) gone: u64,
    pub(crate) superseded: u64,
    pub(crate) unknown: u64,
    pub(crate) too_slow: u64,
    pub(crate) restarts: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            published,
            repeated,
            delivered,
            recovered,
            late,
            retained,
            gone,
            superseded,
            unknown,
            too_slow,
            restarts,
        } = self;
        *published += other.published;
        *repeated += other.repeated;
        *delivered += other.delivered;
        *recovered += other.recovered;
        *late += other.late;
        *retained += other.retained;
        *gone += other.gone;
        *superseded += other.superseded;
        *unknown += other.unknown;
        *too_slow += other.too_slow;
        *restarts += other.restarts;
    }

    pub(crate) fn everything_happened(&self) -> bool {
        let Self {
            published,
            repeated,
            delivered,
            recovered,
            late,
            retained,
            gone,
            superseded,
            unknown,
            too_slow,
            restarts,
        } = *self;
        let all = [
            published, repeated, delivered, recovered, late, retained, gone, superseded, unknown, too_slow,
            restarts,
        ];
        all.iter().all(|count| *count > 0)
    }

    pub(crate) fn count(&mut self, told: &Told) {
        match told {
            Told::Delivery(delivery) => {
                self.delivered += 1;
                self.recovered += u64::from(delivery.recovered);
                self.late += u64::from(delivery.late);
                self.retained += u64::from(delivery.retained);
            }
            Told::Fate { fate: Fate::Gone, count, .. } => self.gone += count.number,
            Told::Fate { fate: Fate::Superseded, count, .. } => self.superseded += count.number,
            Told::Fate { fate: Fate::Unknown, count, .. } => self.unknown += count.number,
            _ => {}
        }
    }
}
