//! A service that is watched.

use std::time::Duration;

use serde::Deserialize;
use whimbrel_broker::report::BrokerReport;
use whimbrel_service::{SessionReport, StatusReport};

/// A service by its control socket: the last two reports, or why there is none.
#[derive(Clone, Debug)]
pub(in crate::top) struct Source {
    /// The name of the service in rows: the file name of its socket.
    pub(super) name: String,
    pub(super) now: Option<Seen>,
    before: Option<Seen>,
    /// Why the last look failed.
    pub(super) trouble: Option<String>,
}

/// A report, and when it came.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    at: Duration,
    pub(super) report: StatusReport,
    pub(super) broker: Option<BrokerReport>,
}

impl Source {
    pub(super) fn new(name: String) -> Self {
        Self { name, now: None, before: None, trouble: None }
    }

    /// Takes a report that came `at` this time, or why none came.
    pub(super) fn take(&mut self, at: Duration, looked: Result<StatusReport, String>) {
        match looked {
            Ok(report) => {
                let broker = (report.service == "broker")
                    .then(|| BrokerReport::deserialize(&report.more).unwrap_or_default());
                self.before = self.now.replace(Seen { at, report, broker });
                self.trouble = None;
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// Returns how fast a sum over sessions grows, for each second. None before the second report.
    pub(super) fn rate(&self, of: fn(&SessionReport) -> u64) -> Option<f64> {
        let (now, before) = (self.now.as_ref()?, self.before.as_ref()?);
        let sum = |seen: &Seen| seen.report.sessions.iter().map(of).sum::<u64>();
        let elapsed = now.at.saturating_sub(before.at).as_secs_f64();
        let is_same = now.report.pid == before.report.pid && elapsed > 0.0;
        // Sums fall when a session ends.
        is_same.then(|| sum(now).saturating_sub(sum(before)) as f64 / elapsed)
    }
}
