//! The bottleneck's rate: the best of the last few round trips.

use crate::congestion::math;

/// Round trips a sample is held. Few, since while packets queue every sample shows the rate as it is.
const ROUNDS: usize = 3;

/// No link is faster, bytes a second.
const FASTEST: u64 = 1 << 37;

/// A maximum over round trips. Round trips without a sample do not count: a silence changes nothing.
#[derive(Debug, Default)]
pub(super) struct Bandwidth {
    /// This round trip's best, then those before it; 0: none.
    rounds: [u64; ROUNDS],
    /// Something in this round trip showed that the path carries no more.
    limited: bool,
}

impl Bandwidth {
    /// `limited`: the path set the rate, and not the sender.
    pub(super) fn on_sample(&mut self, rate: u64, limited: bool) {
        self.rounds[0] = self.rounds[0].max(rate.min(FASTEST));
        self.limited |= limited;
    }

    /// Bytes a second; 0: unknown.
    pub(super) fn estimate(&self) -> u64 {
        self.rounds.iter().copied().max().unwrap_or(0)
    }

    /// A round trip in which packets arrived no faster than they left, and left slowly, says nothing against
    /// a higher rate: the older ones stay.
    pub(super) fn end_round(&mut self) {
        if self.rounds[0] > 0 && (self.limited || self.rounds[0] >= self.estimate()) {
            self.rounds.rotate_right(1);
        }
        self.rounds[0] = 0;
        self.limited = false;
    }

    /// Forgets the rounds before the last: what they held no longer is.
    pub(super) fn keep_latest(&mut self) {
        let latest = if self.rounds[0] > 0 { self.rounds[0] } else { self.rounds[1] };
        self.rounds = [latest, 0, 0];
        self.limited = true;
    }

    /// The bottleneck is known to carry no more than `rate`.
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
