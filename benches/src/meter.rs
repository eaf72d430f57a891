//! Measures throughput on the receiving side, and round trips on the side that sends the requests.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::job::Job;

/// The time before counting starts, in which slow start, caches and allocators settle.
const WARM_UP: Duration = Duration::from_millis(300);

/// The result of one measurement.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The payload received, in bits per second.
    pub(crate) bits_per_s: f64,
    /// The messages received per second; 0 for bulk.
    pub(crate) messages_per_s: f64,
    /// The share of messages that never arrived; 0 if nothing can be lost.
    pub(crate) lost: f64,
    /// The median round trip in µs; 0 if it was not measured.
    pub(crate) rtt_us_p50: f64,
    /// The 99th percentile of the round trips in µs; 0 if they were not measured.
    pub(crate) rtt_us_p99: f64,
}

/// Counts what arrives in a window that opens some time after the first arrival.
#[derive(Debug)]
pub(crate) struct Meter {
    window: Duration,
    message: Option<usize>,
    first: Option<Instant>,
    opened: Option<(Instant, u64)>,
    bytes: u64,
    numbers: Option<(u64, u64)>,
    numbered: u64,
}

impl Meter {
    pub(crate) fn new(job: &Job) -> Self {
        Self {
            window: job.window(),
            message: job.workload.message(),
            first: None,
            opened: None,
            bytes: 0,
            numbers: None,
            numbered: 0,
        }
    }

    /// Records the number at the start of a datagram, to count losses.
    pub(crate) fn number(&mut self, datagram: &[u8]) {
        let Some(number) = datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) else { return };
        if self.opened.is_some() {
            let (low, high) = self.numbers.unwrap_or((number, number));
            self.numbers = Some((low.min(number), high.max(number)));
            self.numbered += 1;
        }
    }

    /// Counts bytes that have arrived. Returns the figures once the window has closed.
    pub(crate) fn add(&mut self, bytes: usize) -> Option<Figures> {
        self.bytes += bytes as u64;
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        let Some((opened, before)) = self.opened else {
            if now - first >= WARM_UP {
                self.opened = Some((now, self.bytes));
            }
            return None;
        };
        let elapsed = now - opened;
        (elapsed >= self.window).then(|| self.figures(self.bytes - before, elapsed))
    }

    fn figures(&self, bytes: u64, elapsed: Duration) -> Figures {
        let bytes_per_s = bytes as f64 / elapsed.as_secs_f64();
        let sent = self.numbers.map_or(0, |(low, high)| high - low + 1);
        Figures {
            bits_per_s: bytes_per_s * 8.0,
            messages_per_s: self.message.map_or(0.0, |size| bytes_per_s / size as f64),
            lost: if sent == 0 { 0.0 } else { 1.0 - self.numbered as f64 / sent as f64 },
            ..Figures::default()
        }
    }
}

/// Measures round trips on the side that sends the requests.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    end: Instant,
    warm: Instant,
    trips: Vec<Duration>,
}

impl Stopwatch {
    pub(crate) fn new(job: &Job) -> Self {
        let now = Instant::now();
        Self { end: now + WARM_UP + job.window(), warm: now + WARM_UP, trips: Vec::with_capacity(1 << 20) }
    }

    /// Records a round trip that began at `asked`. Returns the figures once the time is over.
    pub(crate) fn answered(&mut self, asked: Instant) -> Option<Figures> {
        let now = Instant::now();
        if asked >= self.warm {
            self.trips.push(now - asked);
        }
        if now < self.end || self.trips.is_empty() {
            return None;
        }
        self.trips.sort_unstable();
        let at = |quantile: f64| {
            self.trips[((self.trips.len() - 1) as f64 * quantile).round() as usize].as_secs_f64() * 1e6
        };
        Some(Figures { rtt_us_p50: at(0.5), rtt_us_p99: at(0.99), ..Figures::default() })
    }
}
