//! The plan of a measurement, which the `Start` message carries to the other end.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize, Serializer};
use whimbrel::Service;

/// A kind of load.
#[derive(ValueEnum, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// As many bytes as possible.
    Bulk,
    /// As many messages as possible, or at a rate.
    Messages,
    /// Round trips on an otherwise idle path; with --rate, how long messages take one way.
    Latency,
    /// Bulk, and small urgent messages that overtake it.
    Mixed,
}

/// The load to send.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    #[serde(serialize_with = "short")]
    pub(super) service: Service,
    /// Bytes per message.
    pub(super) size: usize,
    /// Messages handed over in one call.
    pub(super) batch: usize,
    /// Messages per second; `None`: as many as there is room for. In mixed mode, the rate of the urgent ones.
    pub(super) rate: Option<f64>,
    pub(super) lifetime_ms: Option<u64>,
    /// Whether each message replaces the one before.
    pub(super) replace: bool,
    /// The length of the measurement, in seconds from the connect call.
    pub(super) time_s: Option<f64>,
    /// The number of bytes to send, instead of a time.
    pub(super) bytes: Option<u64>,
    /// Whether the listener sends.
    pub(super) reverse: bool,
}

/// Writes a service under its short name, as both ends and readers of the document expect it.
pub(super) fn short<S: Serializer>(service: &Service, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(service.short())
}

/// The longest message, which is the library's default limit.
const MAX_SIZE: usize = 16 << 20;
const MAX_BATCH: usize = 1 << 16;
const MIN_RATE: f64 = 1e-3;
const MAX_RATE: f64 = 1e9;
const MAX_TIME_S: f64 = 7.0 * 86_400.0;
const MAX_LIFETIME_MS: u64 = 7 * 86_400_000;

impl Plan {
    /// Checks the plan; the error says what to do. Both ends check it, because a plan from the other end is a
    /// stranger's.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=MAX_SIZE).contains(&self.size) {
            return Err(format!("--size {} is not between 1 and {MAX_SIZE} bytes", self.size));
        }
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(format!("--batch {} is not between 1 and {MAX_BATCH} messages", self.batch));
        }
        if self.rate.is_some_and(|rate| !(MIN_RATE..=MAX_RATE).contains(&rate)) {
            return Err(format!("--rate is not between {MIN_RATE} and {MAX_RATE} messages a second"));
        }
        if self.lifetime_ms.is_some_and(|lifetime| lifetime > MAX_LIFETIME_MS) {
            return Err("--lifetime is above a week: leave it out, or write milliseconds".into());
        }
        match self.time_s {
            Some(time) if !(time > 0.0 && time <= MAX_TIME_S) => {
                return Err(
                    "--time is not above 0 and up to a week: write seconds, for example --time 10".into()
                );
            }
            None if self.bytes.is_none_or(|bytes| bytes == 0) => {
                return Err("nothing says how much to send: give --time or --bytes".into());
            }
            _ => {}
        }
        if self.is_ping_pong() && self.reverse {
            return Err("a round trip has no direction: leave out --reverse, or give --rate".into());
        }
        if self.replace && self.rate.is_none() {
            return Err("--replace without --rate replaces everything before it leaves: add --rate".into());
        }
        Ok(())
    }

    /// Returns whether one message at a time is sent and sent back by the other end.
    pub(super) fn is_ping_pong(&self) -> bool {
        self.mode == Mode::Latency && self.rate.is_none()
    }

    /// Returns whether the load has no end of its own, so that the sink cuts it off.
    pub(super) fn is_cut(&self) -> bool {
        let endless = self.rate.is_none() || self.mode == Mode::Mixed;
        self.time_s.is_some() && endless && !self.is_ping_pong()
    }

    /// Returns whether everything sent arrives.
    pub(super) fn is_complete(&self) -> bool {
        self.service.is_reliable() && self.lifetime_ms.is_none() && !self.replace
    }

    /// Returns whether the time of each message matters, not only of one per batch.
    pub(super) fn times_each(&self) -> bool {
        self.rate.is_some() && self.mode != Mode::Mixed || self.mode == Mode::Latency
    }

    pub(super) fn time(&self) -> Option<Duration> {
        // The plan was checked, so the time fits.
        self.time_s.map(|time| Duration::try_from_secs_f64(time).unwrap_or_default())
    }

    pub(super) fn lifetime(&self) -> Option<Duration> {
        self.lifetime_ms.map(Duration::from_millis)
    }
}

/// When the message with this number is due at a rate, counted from the beginning.
pub(super) fn due(number: u64, rate: f64) -> Duration {
    let longest = Duration::from_secs_f64(MAX_TIME_S);
    Duration::try_from_secs_f64(number as f64 / rate).map_or(longest, |due| due.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = r#"{"mode":"messages","service":"rs","size":50,"batch":1,"rate":10.0,"lifetime_ms":null,"replace":false,
            "time_s":1.0,"bytes":null,"reverse":false}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_service_travels_under_its_short_name() {
        let text = serde_json::to_string(&plan()).unwrap();
        assert!(text.contains(r#""service":"rs""#), "{text}");
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan());
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused_whoever_asks() {
        assert_eq!(plan().check(), Ok(()));
        let wrong: [fn(&mut Plan); 13] = [
            |plan| plan.size = 0,
            |plan| plan.size = usize::MAX,
            |plan| plan.batch = 0,
            |plan| plan.batch = usize::MAX,
            |plan| plan.rate = Some(0.0),
            |plan| plan.rate = Some(1e-300),
            |plan| plan.rate = Some(-1.0),
            |plan| plan.rate = Some(f64::NAN),
            |plan| plan.rate = Some(f64::INFINITY),
            |plan| plan.lifetime_ms = Some(u64::MAX),
            |plan| plan.time_s = Some(f64::NAN),
            |plan| plan.time_s = Some(1e300),
            |plan| plan.time_s = None,
        ];
        for (case, spoil) in wrong.iter().enumerate() {
            let mut plan = plan();
            spoil(&mut plan);
            assert!(plan.check().is_err(), "case {case}: {plan:?}");
        }
    }

    #[test]
    fn no_rate_makes_a_time_that_is_none() {
        for rate in [1e-300, 0.0, -1.0, f64::NAN, f64::INFINITY, 10.0] {
            assert!(due(u64::MAX, rate) <= Duration::from_secs_f64(MAX_TIME_S));
        }
        assert_eq!(due(15, 10.0), Duration::from_millis(1500));
    }
}
