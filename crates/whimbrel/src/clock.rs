//! The only place that reads the clocks.

use std::time::{Duration, Instant, SystemTime};

use whimbrel_proto::Time;

/// Converts the system's monotonic clock to the time of the protocol core.
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
        return Time::ZERO + ahead::since(self.epoch);
        #[cfg(not(test))]
        return Time::ZERO + self.epoch.elapsed();
    }

    /// Converts a time to an instant for a timer. Times further than a day away are cut to a day, since timers are
    /// set again when they fire.
    pub(crate) fn instant(&self, time: Time) -> tokio::time::Instant {
        const FAR: Duration = Duration::from_secs(86_400);
        let ahead = time.since(self.now()).min(FAR);
        tokio::time::Instant::now() + ahead
    }
}

/// Returns the time since the Unix epoch. Zero if the clock is set before it.
pub(crate) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A clock offset with which tests let time pass without waiting.
#[cfg(test)]
pub(crate) mod ahead {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static STOPPED: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    pub(super) fn since(epoch: Instant) -> Duration {
        STOPPED.get().unwrap_or_else(Instant::now).saturating_duration_since(epoch) + AHEAD.get()
    }

    /// Lets time pass by [`pass`] alone, for this thread only: how busy the machine is changes nothing.
    pub(crate) fn stop() {
        STOPPED.set(Some(Instant::now()));
    }

    /// Lets this much time pass, for this thread only.
    pub(crate) fn pass(time: Duration) {
        AHEAD.set(AHEAD.get() + time);
    }
}
