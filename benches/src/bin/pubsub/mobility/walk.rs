//! The way of one subscriber from broker to broker.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::absence::exponential;
use super::{GRACEFUL, MOVES, Mobility};

/// The way of one subscriber: an endless iterator over its legs.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    model: Mobility,
    broker: usize,
    rng: ChaCha8Rng,
}

/// A stay at a broker, and the absence that follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leg {
    /// The broker, from 0.
    pub(crate) broker: usize,
    /// For how long the subscriber is connected.
    pub(crate) stays: Duration,
    /// For how long its signal is down then. None: it hands off gracefully.
    pub(crate) away: Option<Duration>,
}

impl Walk {
    pub(super) fn new(model: Mobility, number: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number as u64);
        Self { model, broker: number % model.brokers, rng }
    }
}

impl Iterator for Walk {
    type Item = Leg;

    fn next(&mut self) -> Option<Leg> {
        let broker = self.broker;
        let stays = self.model.stay().map_or(Duration::MAX, |mean| exponential(mean, &mut self.rng));
        let away = (!self.rng.random_bool(GRACEFUL)).then(|| self.model.absences().draw(&mut self.rng));
        if away.is_none() || self.rng.random_bool(MOVES) {
            self.broker = self.rng.random_range(0..self.model.brokers);
        }
        Some(Leg { broker, stays, away })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_spends_its_time_as_the_model_says() {
        let model = Mobility { brokers: 3, speed: 20.0, ..Mobility::default() };
        let legs: Vec<Leg> = model.walk(4, 11).take(100_000).collect();
        assert_eq!(legs[0].broker, 1);
        let seconds =
            |part: fn(&Leg) -> Duration| -> f64 { legs.iter().map(|leg| part(leg).as_secs_f64()).sum() };
        let (stays, away) = (seconds(|leg| leg.stays), seconds(|leg| leg.away.unwrap_or_default()));
        assert!((away / (stays + away) / 0.0742 - 1.0).abs() < 0.02, "away for {}", away / (stays + away));
        let between = (stays + away) / legs.len() as f64;
        assert!((between * 20.0 / 154.0 - 1.0).abs() < 0.02, "a request every {between} s");
        let moves = legs.windows(2).filter(|pair| pair[0].broker != pair[1].broker).count() as f64;
        // One in ten of the signal downs and every handoff, of which a third take the same broker.
        let expected = (GRACEFUL + MOVES * (1.0 - GRACEFUL)) * 2.0 / 3.0;
        assert!((moves / legs.len() as f64 / expected - 1.0).abs() < 0.03, "{moves} moves");
    }

    #[test]
    fn the_same_seed_walks_the_same_way_and_others_do_not() {
        let walk = |number, seed| Mobility::default().walk(number, seed).take(5).collect::<Vec<_>>();
        assert_eq!(walk(1, 1), walk(1, 1));
        assert_ne!(walk(1, 1)[0].stays, walk(3, 1)[0].stays);
        assert_ne!(walk(1, 1)[0].stays, walk(1, 2)[0].stays);
    }

    #[test]
    fn who_is_fixed_stays() {
        let leg = Mobility { share: 0.0, ..Mobility::default() }.walk(0, 1).next().unwrap();
        assert_eq!(leg.stays, Duration::MAX);
    }
}
