//! The rate of a transmitter, constant or varying over time.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::time::Duration;

use whimbrel_proto::Time;

use crate::units::{self, ParseError};

const EXAMPLES: &str = "bits per second, for example 4mbit, 500kbit, 1gbit; or a sequence of rates that repeats, for \
                        example trace:10mbit/1s+2mbit/500ms; or mahimahi:FILE, a trace file of mahimahi";
/// The size in bits of the packet that a line of a mahimahi file stands for.
const MAHIMAHI_BITS: u64 = 1504 * 8;
/// The time in such a file that makes one step.
const MAHIMAHI_STEP: Duration = Duration::from_millis(100);

/// The rate of a transmitter in bits per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rate {
    /// A constant rate, at least 1. Written `4mbit`.
    Constant(u64),
    /// A rate that varies over time, from the start of the link's clock. Written `trace:10mbit/1s+2mbit/500ms`, or
    /// `mahimahi:FILE` for a trace file of mahimahi. Each line of such a file is the millisecond at which one packet of
    /// 1504 bytes can leave. It is read as the mean of every 100 ms.
    Trace(Trace),
}

/// A sequence of rates that repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    steps: Vec<Step>,
    /// When each step ends, from the start.
    ends: Vec<Duration>,
    length: Duration,
}

/// A stretch of time at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rate in bits per second; 0 while nothing can leave.
    pub rate: u64,
    /// How long the step lasts.
    pub length: Duration,
}

impl Rate {
    /// Returns the mean rate over a long time, in bits per second.
    pub fn mean(&self) -> u64 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Trace(trace) => trace.mean(),
        }
    }

    /// The rate at `now`, and when it may change.
    pub(crate) fn at(&self, now: Time) -> (u64, Option<Time>) {
        match self {
            Self::Constant(rate) => (*rate, None),
            Self::Trace(trace) => trace.at(now),
        }
    }
}

impl Trace {
    /// Creates a trace. Returns `None` if it is shorter than 1 ms in all, or slower than 1 bit/s on average.
    pub fn new(steps: Vec<Step>) -> Option<Self> {
        let mut length = Duration::ZERO;
        let mut ends = Vec::with_capacity(steps.len());
        for step in &steps {
            length = length.checked_add(step.length)?;
            ends.push(length);
        }
        let trace = Self { steps, ends, length };
        (length >= Duration::from_millis(1) && trace.mean() >= 1).then_some(trace)
    }

    fn mean(&self) -> u64 {
        self.mean_below(u64::MAX)
    }

    /// Returns the lowest rate, in bits per second.
    pub fn lowest(&self) -> u64 {
        self.steps.iter().map(|step| step.rate).min().unwrap_or_default()
    }

    /// Returns the mean of what is left if nothing exceeds `most`.
    pub(crate) fn mean_below(&self, most: u64) -> u64 {
        let left = |step: &Step| u128::from(step.rate.min(most)) * step.length.as_nanos();
        let bits: u128 = self.steps.iter().map(left).sum();
        (bits / self.length.as_nanos()) as u64
    }

    fn at(&self, now: Time) -> (u64, Option<Time>) {
        let into = Duration::from_nanos((u128::from(now.as_nanos()) % self.length.as_nanos()) as u64);
        let step = self.ends.partition_point(|end| *end <= into);
        (self.steps[step].rate, Some(now + (self.ends[step] - into)))
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let wrong = || ParseError::new("rate", text, EXAMPLES);
        if let Some(steps) = text.strip_prefix("trace:") {
            let steps = steps.split('+').map(step).collect::<Option<_>>().ok_or_else(wrong)?;
            return Trace::new(steps).map(Self::Trace).ok_or_else(wrong);
        }
        if let Some(file) = text.strip_prefix("mahimahi:") {
            let lines =
                fs::read_to_string(file).map_err(|error| ParseError::plain(format!("`{file}`: {error}")))?;
            return mahimahi(&lines).map(Self::Trace).ok_or_else(|| {
                ParseError::plain(format!(
                    "`{file}` is not a trace file of mahimahi: each line must be a time in ms, in ascending order"
                ))
            });
        }
        units::rate(text).map(Self::Constant).map_err(|_| wrong())
    }
}

fn step(text: &str) -> Option<Step> {
    let (rate, length) = text.split_once('/')?;
    let rate = if rate.trim() == "0" { 0 } else { units::rate(rate).ok()? };
    Some(Step { rate, length: units::positive_duration(length).ok()? })
}

fn mahimahi(lines: &str) -> Option<Trace> {
    let times: Vec<u64> = lines.split_whitespace().map(|line| line.parse().ok()).collect::<Option<_>>()?;
    let step = MAHIMAHI_STEP.as_millis() as u64;
    // The last line gives the length. A line belongs to the step that it ends.
    let count = times.last()?.div_ceil(step);
    if !times.is_sorted() || !(1..=10_000_000).contains(&count) {
        return None;
    }
    let mut packets = vec![0; count as usize];
    for time in &times {
        packets[(time.max(&1).div_ceil(step) - 1) as usize] += 1;
    }
    let rate = |packets| packets * MAHIMAHI_BITS * 1000 / step;
    Trace::new(
        packets.into_iter().map(|packets| Step { rate: rate(packets), length: MAHIMAHI_STEP }).collect(),
    )
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(rate) => f.write_str(&units::rate_text(*rate)),
            Self::Trace(trace) => {
                let step = |step: &Step| {
                    let rate = if step.rate == 0 { "0".into() } else { units::rate_text(step.rate) };
                    format!("{rate}/{:?}", step.length)
                };
                write!(f, "trace:{}", trace.steps.iter().map(step).collect::<Vec<_>>().join("+"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn rates_come_back_as_they_were() {
        for text in ["4mbit", "trace:10mbit/1s+2mbit/500ms", "trace:1.5gbit/1s+0/20ms"] {
            assert_eq!(rate(text).to_string(), text);
        }
        assert_eq!(rate("trace:10mbit/1s+1mbit/500ms").mean(), 7_000_000);
    }

    #[test]
    fn a_trace_comes_again() {
        let trace = rate("trace:10mbit/1s+2mbit/500ms");
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        assert_eq!(trace.at(ms(0)), (10_000_000, Some(ms(1000))));
        assert_eq!(trace.at(ms(1000)), (2_000_000, Some(ms(1500))));
        assert_eq!(trace.at(ms(3400)), (10_000_000, Some(ms(4000))));
    }

    #[test]
    fn what_never_moves_is_no_rate() {
        for text in [
            "trace:",
            "trace:0/1s",
            "trace:4mbit/1us",
            "trace:1bit/1s+0/1s",
            "trace:4mbit",
            "trace:4mbit/0s",
            "mahimahi:/nowhere/at/all",
            "0mbit",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_of_mahimahi_is_so_many_packets_a_step() {
        // 10 packets in the first 100 ms, none in the second, 5 in the third.
        let lines =
            (1..=10).chain([260, 270, 280, 290, 300]).map(|ms: u32| format!("{ms}\n")).collect::<String>();
        let trace = mahimahi(&lines).unwrap();
        assert_eq!(trace.steps.iter().map(|step| step.rate).collect::<Vec<_>>(), [1_203_200, 0, 601_600]);
        assert_eq!(trace.length, Duration::from_millis(300));
        for bad in ["", "5\n4\n", "one\n", "0\n", "99999999999999\n"] {
            assert_eq!(mahimahi(bad), None, "{bad}");
        }
    }
}
