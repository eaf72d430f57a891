//! How subscribers roam: the mobility model of Farooq, Majumdar and Parsons (2007), section 3, Figure 3 and Table 1.
//!
//! A subscriber is *connected* to a broker for an exponential time. Then it makes a *graceful handoff*, which takes no time, or its *signal is
//! down* for an exponential or hyper-exponential time. After a signal down it comes back to the same broker, or in one case of ten moves.
//! A subscriber that moves, or hands off, takes any broker with equal probability.
//!
//! The model is pure: it knows durations and numbers of brokers, and draws from a seed. Any load can follow it.

mod absence;
mod walk;

use std::time::Duration;

pub(crate) use absence::Absence;
pub(crate) use walk::{Leg, Walk};

/// The share of requests to connect that belong to a graceful handoff: f_GH / (f_GH + f_H) of Table 1.
const GRACEFUL: f64 = 0.000_309 / (0.000_309 + 0.006_17);
/// The share of signal downs after which a subscriber comes to a new cell.
const MOVES: f64 = 0.1;

/// The parameters of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mobility {
    /// The mean signal-down interval, t_SD. Table 1: 12 s.
    pub(crate) absence: Duration,
    /// Its coefficient of variation, C_V. Table 1: 1, which is exponential.
    pub(crate) variation: f64,
    /// The share of time in the signal-down state, T_SD / T. 0: subscribers are fixed. Table 1: 0.0742.
    pub(crate) share: f64,
    /// The brokers. The paper has 2.
    pub(crate) brokers: usize,
    /// How much faster than in the paper time goes: all durations are divided by it.
    pub(crate) speed: f64,
}

impl Default for Mobility {
    /// The defaults of Table 1.
    fn default() -> Self {
        Self { absence: Duration::from_secs(12), variation: 1.0, share: 0.0742, brokers: 2, speed: 1.0 }
    }
}

impl Mobility {
    /// The distribution of signal-down intervals.
    pub(crate) fn absences(&self) -> Absence {
        Absence::new(self.absence.div_f64(self.speed), self.variation)
    }

    /// The mean time between two requests of one subscriber to connect, t_C, in seconds. None: it never leaves.
    pub(crate) fn between(&self) -> Option<f64> {
        (self.share > 0.0).then(|| (1.0 - GRACEFUL) * self.absences().mean() / self.share)
    }

    /// The mean time for which a subscriber stays, t_CS, in seconds. None: for ever.
    fn stay(&self) -> Option<f64> {
        Some((self.between()? - (1.0 - GRACEFUL) * self.absences().mean()).max(0.0))
    }

    /// Begins the walk of a subscriber. Subscribers are spread over the brokers by their numbers.
    pub(crate) fn walk(&self, number: usize, seed: u64) -> Walk {
        Walk::new(*self, number, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_1_comes_out() {
        let between = Mobility::default().between().unwrap();
        assert!((between / 154.32 - 1.0).abs() < 0.003, "t_C is {between}");
        let doubled = Mobility { absence: Duration::from_secs(24), ..Mobility::default() };
        assert!((doubled.between().unwrap() / 308.64 - 1.0).abs() < 0.003, "{:?}", doubled.between());
        // f_H, of which Table 1 gives three digits.
        assert!(((1.0 - GRACEFUL) / between - 0.006_17).abs() < 0.000_02);
        assert_eq!(Mobility { share: 0.0, ..Mobility::default() }.between(), None);
    }
}
