//! Estimates the bottleneck's rate as the best sample of the last few round trips.

use crate::congestion::math;

/// Round trips for which a sample is held. A few are enough: while packets queue, every sample shows the true rate.
const ROUNDS: usize = 3;

/// The highest rate that is believed, in bytes a second.
const FASTEST: u64 = 1 << 37;

/// A maximum over round trips. Round trips without a sample do not count, so a silence changes nothing.
#[derive(Debug, Default)]
pub(super) struct Bandwidth {
    /// The best sample of this round trip, then of the ones before it; 0 means none.
    rounds: [u64; ROUNDS],
    /// Whether a sample in this round trip showed that the path carries no more.
    limited: bool,
}

impl Bandwidth {
    /// Takes in a sample. `limited` says that the path limited the rate, and not the sender.
    pub(super) fn on_sample(&mut self, rate: u64, limited: bool) {
        self.rounds[0] = self.rounds[0].max(rate.min(FASTEST));
        self.limited |= limited;
    }

    /// The estimate in bytes a second; 0 if it is unknown.
    pub(super) fn estimate(&self) -> u64 {
        self.rounds.iter().copied().max().unwrap_or(0)
    }

    /// Ends a round trip. If packets arrived as fast as they were sent, and that was slow, the round trip is no
    /// evidence against a higher rate, and the older samples stay.
    pub(super) fn end_round(&mut self) {
        if self.rounds[0] > 0 && (self.limited || self.rounds[0] >= self.estimate()) {
            self.rounds.rotate_right(1);
        }
        self.rounds[0] = 0;
        self.limited = false;
    }

    /// Forgets all rounds but the latest one that has a sample: the link has changed.
    pub(super) fn keep_latest(&mut self) {
        let latest = if self.rounds[0] > 0 { self.rounds[0] } else { self.rounds[1] };
        self.rounds = [latest, 0, 0];
        self.limited = true;
    }

    /// Caps all samples at `rate`, the most that the bottleneck is known to carry.
    pub(super) fn limit(&mut self, rate: u64) {
        for round in &mut self.rounds {
            *round = (*round).min(rate);
        }
    }

    pub(super) fn scale(&mut self, permille: u64) {
        for rate in &mut self.rounds {
            *rate = math::scale(*rate, permille);
        }
    }
}
