//! The pause before brokers are tried again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Pauses that grow, with jitter, so that clients of a broker that was restarted do not come all at once.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(FIRST)
    }

    /// The pause before the next broker is tried, of so many, after so many failures in a row. `left`: the last one ended
    /// a session or sent its clients away, so all of them go to the next one now.
    pub(super) fn before(&mut self, left: bool, failures: usize, brokers: usize) -> Duration {
        if failures >= brokers {
            self.next()
        } else if left {
            FIRST.mul_f64(random())
        } else {
            Duration::ZERO
        }
    }

    /// The next pause: half of it is random.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST);
        pause / 2 + pause.mul_f64(0.5 * random())
    }

    pub(super) fn reset(&mut self) {
        self.0 = FIRST;
    }
}

/// A random number from 0 to 1. Without one, the middle.
fn random() -> f64 {
    let mut bytes = [0; 4];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut backoff = Backoff::new();
        let mut whole = FIRST;
        for _ in 0..20 {
            let pause = backoff.next();
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?} of {whole:?}");
            whole = (whole * 2).min(LONGEST);
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn clients_that_a_broker_left_do_not_go_to_the_next_at_once() {
        let pauses: Vec<_> = (0..1_000).map(|_| Backoff::new().before(true, 1, 2)).collect();
        for fifth in 1..=5 {
            let part = FIRST * (fifth - 1) / 5..=FIRST * fifth / 5;
            let count = pauses.iter().filter(|pause| part.contains(pause)).count();
            assert!((100..300).contains(&count), "{count} of 1,000 in {part:?}");
        }
    }

    #[test]
    fn a_broker_that_is_out_of_reach_costs_no_pause_while_there_are_others() {
        let mut backoff = Backoff::new();
        assert_eq!(backoff.before(false, 1, 2), Duration::ZERO);
        assert!(backoff.before(false, 2, 2) >= FIRST / 2);
        assert!(backoff.before(true, 1, 1) >= FIRST / 2, "the only one");
    }
}
