//! Notifies systemd that the service is ready, alive, reloading or stopping. Does nothing if systemd did not start
//! the service.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinHandle;

/// Tells systemd that the service is ready, and then feeds its watchdog while the runtime works. Dropping it tells
/// that the service is stopping, unless that was told.
pub(crate) struct Readiness {
    watchdog: Option<JoinHandle<()>>,
    stopping: bool,
}

impl Readiness {
    pub(crate) fn announce() -> Self {
        tell(&[NotifyState::Ready]);
        let watchdog = sd_notify::watchdog_enabled().map(|interval| tokio::spawn(feed(interval / 2)));
        Self { watchdog, stopping: false }
    }

    pub(crate) fn reloading(&self) {
        tell(&[NotifyState::Reloading]);
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
        if let Some(watchdog) = &self.watchdog {
            watchdog.abort();
        }
    }
}

async fn feed(every: Duration) {
    let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    // Nothing needs to be told if systemd did not start the process.
    sd_notify::notify(states).ok();
}
