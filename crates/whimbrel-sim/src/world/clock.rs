//! The clock that all nodes share.

use std::time::Duration;

use whimbrel_proto::Time;

/// This many steps without time passing mean that a timer fires again and again at once.
const STANDSTILL: u32 = 100_000;

/// A clock that stands still until it is told the time of the next event.
#[derive(Debug)]
pub(super) struct Clock {
    now: Time,
    /// The number of steps in a row that took no time.
    standstill: u32,
    /// Timers fire only at multiples of this.
    grain: Duration,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { now: Time::ZERO, standstill: 0, grain: Duration::ZERO }
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    pub(super) fn set_grain(&mut self, grain: Duration) {
        self.grain = grain;
    }

    /// Goes on to a time, but never back. Panics if it was called again and again and no time passed.
    pub(super) fn advance(&mut self, to: Time) {
        let was = self.now;
        self.now = to.max(was);
        self.standstill = if self.now == was { self.standstill + 1 } else { 0 };
        assert!(self.standstill < STANDSTILL, "a timer at {was:?} is due for ever: the driver would spin");
    }

    /// When a timer that is due at `at` fires.
    pub(super) fn fires_at(&self, at: Time) -> Time {
        let grain = self.grain.as_nanos() as u64;
        if grain == 0 || at <= self.now {
            return at;
        }
        Time::from_nanos(at.as_nanos().div_ceil(grain).saturating_mul(grain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_at_multiples_of_the_grain_but_not_later_if_they_are_overdue() {
        let mut clock = Clock::new();
        let ns = Time::from_nanos;
        assert_eq!(clock.fires_at(ns(1001)), ns(1001));
        clock.set_grain(Duration::from_nanos(1000));
        assert_eq!((clock.fires_at(ns(1000)), clock.fires_at(ns(1001))), (ns(1000), ns(2000)));
        clock.advance(ns(1500));
        assert_eq!((clock.fires_at(ns(1500)), clock.fires_at(ns(1501))), (ns(1500), ns(2000)));
        clock.advance(ns(1000));
        assert_eq!(clock.now(), ns(1500), "time does not run backwards");
    }

    #[test]
    #[should_panic(expected = "due for ever")]
    fn a_timer_that_fires_for_ever_is_found() {
        let mut clock = Clock::new();
        loop {
            clock.advance(Time::ZERO);
        }
    }
}
