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
}
