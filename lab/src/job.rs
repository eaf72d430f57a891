//! What the two sides of a trial are to do, and what they say of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What a caller sends and a server receives. It is the first argument of both sides, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "load")]
pub(crate) enum Job {
    /// As many bytes as will go, until told to stop.
    Bulk,
    /// So many bytes, in order; done when the last was read.
    Transfer {
        /// Payload bytes.
        bytes: u64,
    },
    /// Messages at a steady rate, each with its number and the time of its send call.
    Messages {
        /// Payload bytes of each, at least 16.
        size: usize,
        /// A second.
        rate: f64,
        /// How many.
        count: u64,
        /// What the receiver wants of them.
        want: Want,
    },
}

/// Width of a bin of [`Figures::bins`], nanoseconds.
pub(crate) const BIN: u64 = 10_000_000;
/// Bytes at the front of each message: its number and the time of its send call, 8 each.
pub(crate) const HEADER: usize = 16;

impl Job {
    /// Reads what [`Job::to_json`] has written.
    pub(crate) fn from_json(json: &str) -> anyhow::Result<Self> {
        let job = serde_json::from_str(json)?;
        if let Self::Messages { size, rate, count, .. } = job {
            anyhow::ensure!(
                size >= HEADER && rate > 0.0 && count > 0,
                "messages have at least {HEADER} bytes, a rate, and a number: {json}"
            );
        }
        Ok(job)
    }

    /// As the two sides get it.
    pub(crate) fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// What a receiver wants of messages, and a sender may therefore do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Want {
    /// All of them, in order.
    Ordered,
    /// All of them, in any order, each as soon as it is there.
    Each,
    /// The newest: a later one makes an earlier one worthless. Peers that cannot replace send all, in order.
    Newest,
    /// What comes in time: none is repeated after so many milliseconds, where the peer can do that.
    Within(u64),
}

/// What the receiving side found; printed as `figures JSON` when the job is done or standard input has closed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Payload bytes read.
    pub(crate) bytes: u64,
    /// When the first and the last of them were read, nanoseconds of [`crate::clock`].
    pub(crate) first: u64,
    /// See `first`.
    pub(crate) last: u64,
    /// Payload bytes read by time: (nanoseconds of the clock, divided by 10 ms; bytes), only where there were any.
    pub(crate) bins: Vec<(u64, u64)>,
    /// Messages as they were read: number, send call and arrival in nanoseconds of the clock.
    pub(crate) messages: Vec<(u64, u64, u64)>,
    /// Processor time of this side, seconds.
    pub(crate) cpu: f64,
}

impl Figures {
    /// The longest time without a byte read between two moments of the clock, seconds; what stands open at either end counts.
    pub(crate) fn longest_gap(&self, from: u64, to: u64) -> f64 {
        let within = self.bins.iter().map(|(bin, _)| bin * BIN).filter(|at| (from..to).contains(at));
        let (mut longest, mut since) = (0, from);
        for at in within.chain([to]) {
            longest = longest.max(at.saturating_sub(since));
            since = at;
        }
        longest as f64 / 1e9
    }

    /// Messages of `count` that never came.
    pub(crate) fn lost(&self, count: u64) -> u64 {
        count.saturating_sub(self.distinct())
    }

    /// The first and the last of `count` that never came.
    pub(crate) fn missing(&self, count: u64) -> Option<(u64, u64)> {
        let came: BTreeSet<_> = self.messages.iter().map(|(number, ..)| *number).collect();
        let mut missing = (0..count).filter(|number| !came.contains(number));
        let first = missing.next()?;
        Some((first, missing.next_back().unwrap_or(first)))
    }

    /// Messages that came again.
    pub(crate) fn duplicates(&self) -> u64 {
        self.messages.len() as u64 - self.distinct()
    }

    /// Messages of `count` that did not come within `limit` nanoseconds of their send call: late or lost.
    pub(crate) fn late(&self, count: u64, limit: u64) -> u64 {
        let in_time = self.messages.iter().filter(|(_, sent, at)| at.saturating_sub(*sent) <= limit);
        count.saturating_sub(in_time.map(|(number, ..)| number).collect::<BTreeSet<_>>().len() as u64)
    }

    fn distinct(&self) -> u64 {
        self.messages.iter().map(|(number, ..)| number).collect::<BTreeSet<_>>().len() as u64
    }
}

/// What the sending side found; printed as `sent JSON` in the end, after `started NANOSECONDS` at the connect call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Payload bytes handed to the transport.
    pub(crate) bytes: u64,
    /// Messages handed to the transport.
    pub(crate) messages: u64,
    /// Processor time of this side, seconds.
    pub(crate) cpu: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_gap_is_open_at_both_ends() {
        let bins = vec![(100, 1), (150, 1), (180, 1)];
        let figures = Figures { bins, ..Figures::default() };
        assert!((figures.longest_gap(SECOND, 2 * SECOND) - 0.5).abs() < 1e-9, "between two reads");
        assert!((figures.longest_gap(0, 2 * SECOND) - 1.0).abs() < 1e-9, "before the first");
        assert!((figures.longest_gap(SECOND, 3 * SECOND) - 1.2).abs() < 1e-9, "after the last");
        assert!((Figures::default().longest_gap(0, SECOND) - 1.0).abs() < 1e-9, "of nothing");
    }

    #[test]
    fn what_is_lost_is_late_and_what_comes_twice_counts_once() {
        let messages = vec![(0, 0, 10), (2, 0, 30), (2, 0, 31), (3, 0, 500)];
        let figures = Figures { messages, ..Figures::default() };
        assert_eq!((figures.lost(5), figures.duplicates()), (2, 1));
        assert_eq!(figures.late(5, 100), 3);
        assert_eq!(figures.late(5, 5), 5);
    }

    #[test]
    fn a_job_survives_its_way_through_an_argument() {
        let messages = Job::Messages { size: 100, rate: 0.5, count: 3, want: Want::Within(200) };
        for job in [Job::Bulk, Job::Transfer { bytes: 7 }, messages] {
            assert_eq!(Job::from_json(&job.to_json().unwrap()).unwrap(), job);
        }
        assert!(Job::from_json(r#"{"load":"messages","size":8,"rate":1,"count":1,"want":"each"}"#).is_err());
    }
}
