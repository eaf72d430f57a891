//! The one place that reads the clock.

use std::time::Instant;

use whimbrel_proto::Time;

/// Turns the system's monotonic clock into the core's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        #[cfg(test)]
        return Time::ZERO + self.epoch.elapsed() + ahead::get();
        #[cfg(not(test))]
        return Time::ZERO + self.epoch.elapsed();
    }

    /// When `time` is, for a timer. The far future stays a day away: timers are set again when they fire.
    pub(crate) fn instant(&self, time: Time) -> tokio::time::Instant {
        const FAR: std::time::Duration = std::time::Duration::from_secs(86_400);
        let ahead = time.since(self.now()).min(FAR);
        tokio::time::Instant::now() + ahead
    }
}

/// Time that tests have pass without waiting for it.
#[cfg(test)]
pub(crate) mod ahead {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    pub(super) fn get() -> Duration {
        AHEAD.get()
    }

    /// On this thread.
    pub(crate) fn pass(time: Duration) {
        AHEAD.set(AHEAD.get() + time);
    }
}
