//! Counts arrivals.

use std::time::Duration;

use whimbrel::Message;
use whimbrel_link::Histogram;

use super::figures::{Counted, Latency};
use super::received_set::ReceivedSet;
use super::stamp::Stamp;

/// Counts one kind of message. Times are the sink's CLOCK_MONOTONIC in nanoseconds.
pub(super) struct Meter {
    bytes: u64,
    messages: u64,
    seen: ReceivedSet,
    latency: Histogram,
    interval_latency: Histogram,
    last_ns: Option<u64>,
    longest_gap_ns: u64,
    sequenced: bool,
    /// Messages out of order, on a service that keeps order.
    out_of_order: u64,
}

/// The messages whose delays are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// No delays: the clocks cannot be compared.
    None,
    /// The delay of the newest message of each batch: of many messages a sample is enough.
    Newest,
    /// The delays of all messages.
    Each,
}

impl Meter {
    pub(super) fn new(sequenced: bool) -> Self {
        Self {
            bytes: 0,
            messages: 0,
            seen: ReceivedSet::default(),
            latency: Histogram::default(),
            interval_latency: Histogram::default(),
            last_ns: None,
            longest_gap_ns: 0,
            sequenced,
            out_of_order: 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) fn unique(&self) -> u64 {
        if self.seen.next() > 0 { self.seen.unique } else { self.messages }
    }

    pub(super) fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// Counts messages that arrived at `now_ns`.
    pub(super) fn record<'a>(
        &mut self,
        now_ns: u64,
        messages: impl Iterator<Item = &'a Message>,
        timing: Timing,
    ) {
        let mut newest = None;
        let (mut count, mut bytes) = (0, 0);
        for message in messages {
            count += 1;
            bytes += message.payload.len() as u64;
            let Some(stamp) = Stamp::read(&message.payload) else { continue };
            self.seen.insert(stamp.number);
            if timing == Timing::Each {
                self.time(now_ns, stamp);
            }
            newest = Some(stamp);
        }
        if count == 0 {
            return;
        }
        self.messages += count;
        self.bytes += bytes;
        if let (Timing::Newest, Some(stamp)) = (timing, newest) {
            self.time(now_ns, stamp);
        }
        if self.sequenced {
            self.out_of_order = self.seen.overtaken;
        }
        self.close_gap(now_ns);
        self.last_ns = Some(now_ns);
    }

    /// Counts the time since the last message as a gap.
    pub(super) fn close_gap(&mut self, now_ns: u64) {
        let gap = self.last_ns.map_or(0, |last| now_ns.saturating_sub(last));
        self.longest_gap_ns = self.longest_gap_ns.max(gap);
    }

    fn time(&mut self, now_ns: u64, stamp: Stamp) {
        self.interval_latency.record(Duration::from_nanos(now_ns.saturating_sub(stamp.sent_ns)));
    }

    /// Returns the delays since the last call.
    pub(super) fn take_interval_latency(&mut self) -> Option<Latency> {
        let interval = std::mem::take(&mut self.interval_latency);
        self.latency.merge(&interval);
        Latency::of(&interval)
    }

    pub(super) fn counted(&mut self, start_ns: u64) -> Counted {
        self.take_interval_latency();
        Counted {
            bytes: self.bytes,
            messages: self.messages,
            unique: self.seen.unique,
            next: self.seen.next(),
            duplicated: self.seen.duplicated,
            out_of_order: self.out_of_order,
            latency_us: Latency::of(&self.latency),
            longest_gap_ms: self.longest_gap_ns as f64 / 1e6,
            last_s: self.last_ns.map_or(0.0, |last| last.saturating_sub(start_ns) as f64 / 1e9),
        }
    }
}
