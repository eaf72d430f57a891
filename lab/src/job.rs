//! The job of a trial, and the figures that its two sides report.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A job: what the caller sends and the server receives. Both sides get it as JSON in `--job`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "load")]
pub(crate) enum Job {
    /// As many bytes as possible, until told to stop.
    Bulk,
    /// This many bytes, in order. The job is done when the last was read.
    Transfer {
        /// Payload bytes.
        bytes: u64,
    },
    /// Messages at a steady rate, each with its number and the time of its send call.
    Messages {
        /// Payload bytes of each message, at least 16.
        size: usize,
        /// Messages per second.
        rate: f64,
        /// Number of messages.
        count: u64,
        /// Delivery that the receiver wants.
        want: Want,
    },
    /// Frames of a video: messages of several sizes that are worthless after a while.
    Frames {
        /// Frames per second.
        rate: f64,
        /// Number of frames.
        count: u64,
        /// Milliseconds after which a frame is worthless.
        within: u64,
        /// One-way delay of the link in ms, for a peer that delays all frames by a fixed time.
        one_way: u64,
    },
}

/// Sizes of frames in bytes: of a log-normal distribution with a median of 15 KB, between 8 and 30 KB.
pub(crate) const FRAMES: [usize; 16] = [
    8000, 8850, 10_010, 11_000, 11_890, 12_770, 13_640, 14_540, 15_480, 16_490, 17_620, 18_910, 20_460,
    22_460, 25_420, 30_000,
];

/// Returns the size of the frame with this number, the same for all peers and trials.
pub(crate) fn frame_size(number: u64) -> usize {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    FRAMES[((mixed ^ mixed >> 31) % FRAMES.len() as u64) as usize]
}

/// Width of a bin of [`Figures::bins`], nanoseconds.
pub(crate) const BIN: u64 = 10_000_000;
/// Bytes at the front of each message: its number and the time of its send call, 8 bytes each.
pub(crate) const HEADER: usize = 16;

impl Job {
    /// Parses the output of [`Job::to_json`].
    pub(crate) fn from_json(json: &str) -> anyhow::Result<Self> {
        let job = serde_json::from_str(json)?;
        if let Self::Messages { size, rate, count, .. } = job {
            anyhow::ensure!(
                size >= HEADER && rate > 0.0 && count > 0,
                "messages have at least {HEADER} bytes, a rate, and a number: {json}"
            );
        }
        if let Self::Frames { rate, count, .. } = job {
            anyhow::ensure!(rate > 0.0 && count > 0, "frames have a rate and a number: {json}");
        }
        Ok(job)
    }

    /// Returns the JSON that both sides get.
    pub(crate) fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// Delivery that the receiver wants, and so the freedom that the sender has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Want {
    /// All of them, in order.
    Ordered,
    /// All of them, each as soon as it arrives, in any order.
    Each,
    /// Only the newest: each message makes the earlier ones worthless. Peers that cannot replace messages send all, in
    /// order.
    Newest,
    /// Only those that arrive in time. None is retransmitted after this many milliseconds, if the peer can do that.
    Within(u64),
}

/// Figures of the receiving side. It prints them as `figures JSON` when the job is done or standard input has closed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Payload bytes read.
    pub(crate) bytes: u64,
    /// Time at which the first bytes were read, in nanoseconds of [`crate::clock`].
    pub(crate) first: u64,
    /// Time at which the last bytes were read.
    pub(crate) last: u64,
    /// Payload bytes read in each [`BIN`] of the clock: the bin's number and its bytes. Empty bins are left out.
    pub(crate) bins: Vec<(u64, u64)>,
    /// Messages in the order they were read: number, send call and arrival, both in nanoseconds of the clock.
    pub(crate) messages: Vec<(u64, u64, u64)>,
    /// Processor time of this side, seconds.
    pub(crate) cpu: f64,
}

impl Figures {
    /// Returns the longest time without a byte read between two moments of the clock, in seconds. The time before the
    /// first read and after the last one counts too.
    pub(crate) fn longest_gap(&self, from: u64, to: u64) -> f64 {
        let within = self.bins.iter().map(|(bin, _)| bin * BIN).filter(|at| (from..to).contains(at));
        let (mut longest, mut since) = (0, from);
        for at in within.chain([to]) {
            longest = longest.max(at.saturating_sub(since));
            since = at;
        }
        longest as f64 / 1e9
    }

    /// Counts the messages out of `count` that never arrived.
    pub(crate) fn lost(&self, count: u64) -> u64 {
        count.saturating_sub(self.distinct())
    }

    /// Returns the numbers of the first and the last message out of `count` that never arrived.
    pub(crate) fn missing(&self, count: u64) -> Option<(u64, u64)> {
        let came: BTreeSet<_> = self.messages.iter().map(|(number, ..)| *number).collect();
        let mut missing = (0..count).filter(|number| !came.contains(number));
        let first = missing.next()?;
        Some((first, missing.next_back().unwrap_or(first)))
    }

    /// Counts the messages that had already arrived before.
    pub(crate) fn duplicates(&self) -> u64 {
        self.messages.len() as u64 - self.distinct()
    }

    /// Counts the messages out of `count` that did not arrive within `limit` nanoseconds of their send call, late or
    /// lost.
    pub(crate) fn late(&self, count: u64, limit: u64) -> u64 {
        let in_time = self.messages.iter().filter(|(_, sent, at)| at.saturating_sub(*sent) <= limit);
        count.saturating_sub(in_time.map(|(number, ..)| number).collect::<BTreeSet<_>>().len() as u64)
    }

    fn distinct(&self) -> u64 {
        self.messages.iter().map(|(number, ..)| number).collect::<BTreeSet<_>>().len() as u64
    }
}

/// Figures of the sending side. It prints `started NANOSECONDS` at the connect call, and these as `sent JSON` at its
/// end.
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
        assert!((Figures::default().longest_gap(0, SECOND) - 1.0).abs() < 1e-9, "without any read");
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
        let frames = Job::Frames { rate: 30.0, count: 3, within: 150, one_way: 50 };
        for job in [Job::Bulk, Job::Transfer { bytes: 7 }, messages, frames] {
            assert_eq!(Job::from_json(&job.to_json().unwrap()).unwrap(), job);
        }
        assert!(Job::from_json(r#"{"load":"messages","size":8,"rate":1,"count":1,"want":"each"}"#).is_err());
    }
}
