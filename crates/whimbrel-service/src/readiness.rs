//! Notifies systemd that the service is ready, alive, reloading or stopping. Does nothing if systemd did not start
//! the service.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior};

/// Tells systemd that the service is ready. Dropping it tells that the service is stopping, unless that was told.
pub(crate) struct Readiness {
    watchdog: Option<Interval>,
    stopping: bool,
}

impl Readiness {
    pub(crate) fn announce() -> Self {
        tell(&[NotifyState::Ready]);
        Self { watchdog: sd_notify::watchdog_enabled().map(ticks), stopping: false }
    }

    /// Feeds the watchdog when it is due; waits for ever if there is none. The service's loop awaits this, and no
    /// task of its own does: a loop that is stuck must stop feeding. Cancel-safe.
    pub(crate) async fn feed(&mut self) {
        match &mut self.watchdog {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
        tell(&[NotifyState::Watchdog]);
    }

    pub(crate) fn reloading(&self) {
        // Units of `Type=notify-reload` need the time in the same message (sd_notify(3)).
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
    }

    pub(crate) fn reloaded(&self) {
        tell(&[NotifyState::Ready]);
    }

    pub(crate) fn stopping(&mut self) {
        if !std::mem::replace(&mut self.stopping, true) {
            tell(&[NotifyState::Stopping]);
        }
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        self.stopping();
    }
}

/// The times at which the watchdog is fed: twice in its interval.
fn ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval((interval / 2).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn tell(states: &[NotifyState<'_>]) {
    // Nothing needs to be told if systemd did not start the process.
    sd_notify::notify(states).ok();
}
