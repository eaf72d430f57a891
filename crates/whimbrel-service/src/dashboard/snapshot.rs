//! The figures of one moment, as the page gets them.

use std::cmp::Reverse;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::status::{SessionReport, StatusReport};
use crate::subject::Subject;

/// The most sessions in one event. Those with the longest queues come first.
const MOST_SESSIONS: usize = 100;

/// The status report, with few sessions and the sums over all.
#[derive(Serialize)]
pub(super) struct Snapshot {
    /// Milliseconds since 1970.
    time: u64,
    sessions: u64,
    sent_bytes: u64,
    received_bytes: u64,
    sent_messages: u64,
    received_messages: u64,
    report: StatusReport,
}

impl Snapshot {
    /// Looks at the service now.
    pub(super) fn of(subject: &Subject) -> Self {
        let mut report = subject.status();
        let sum = |of: fn(&SessionReport) -> u64| report.sessions.iter().map(of).sum();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (sent_bytes, received_bytes) = (sum(|one| one.sent_bytes), sum(|one| one.received_bytes));
        let (sent_messages, received_messages) =
            (sum(|one| one.sent_messages), sum(|one| one.received_messages));
        let sessions = report.sessions.len() as u64;
        report.sessions.sort_by_key(|session| Reverse(session.queue_bytes));
        report.sessions.truncate(MOST_SESSIONS);
        Self {
            time: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            sessions,
            sent_bytes,
            received_bytes,
            sent_messages,
            received_messages,
            report,
        }
    }

    /// Returns it as a server-sent event.
    pub(super) fn event(&self) -> Vec<u8> {
        // JSON without indentation has no line break, so one line is the whole event.
        let json = serde_json::to_string(self).unwrap_or_else(|_| "null".to_owned());
        format!("data: {json}\n\n").into_bytes()
    }
}
