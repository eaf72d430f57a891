//! What is to be sent: agreed between the ends by the `Start` message.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use whimbrel::Service;

use crate::service::ServiceName;

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

/// What is to be sent.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    pub(super) service: ServiceName,
    /// Bytes of a message.
    pub(super) size: usize,
    /// Messages handed over in one call.
    pub(super) batch: usize,
    /// Messages a second. None: as many as there is room for. In mixed mode: of the urgent ones.
    pub(super) rate: Option<f64>,
    pub(super) lifetime_ms: Option<u64>,
    /// Each message replaces the one before.
    pub(super) replace: bool,
    /// Seconds from the connect call.
    pub(super) time_s: Option<f64>,
    /// Instead: until so many bytes are sent.
    pub(super) bytes: Option<u64>,
    /// The listener sends.
    pub(super) reverse: bool,
}

/// Longest message, as the library's default limit has it.
const MAX_SIZE: usize = 16 << 20;
const MAX_BATCH: usize = 1 << 16;
const MAX_RATE: f64 = 1e9;
const MAX_TIME_S: f64 = 7.0 * 86_400.0;

impl Plan {
    /// What is wrong with it, in a sentence that says what to do.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=MAX_SIZE).contains(&self.size) {
            return Err(format!("--size {} is not between 1 and {MAX_SIZE} bytes", self.size));
        }
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(format!("--batch {} is not between 1 and {MAX_BATCH} messages", self.batch));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= MAX_RATE)) {
            return Err(format!("--rate is not above 0 and up to {MAX_RATE} messages a second"));
        }
        match self.time_s {
            Some(time) if !(time > 0.0 && time <= MAX_TIME_S) => {
                return Err(
                    "--time is not above 0 and up to a week: write seconds, for example --time 10".into()
                );
            }
            None if self.bytes.is_none_or(|bytes| bytes == 0) => {
                return Err("how much is to be sent? give --time or --bytes".into());
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

    /// One message at a time, sent back by the other end.
    pub(super) fn is_ping_pong(&self) -> bool {
        self.mode == Mode::Latency && self.rate.is_none()
    }

    /// The load has no end of its own: the sink cuts it off.
    pub(super) fn is_cut(&self) -> bool {
        let endless = self.rate.is_none() || self.mode == Mode::Mixed;
        self.time_s.is_some() && endless && !self.is_ping_pong()
    }

    /// Everything sent arrives.
    pub(super) fn is_complete(&self) -> bool {
        Service::from(self.service).is_reliable() && self.lifetime_ms.is_none() && !self.replace
    }

    /// The time of each message matters, not of one a batch.
    pub(super) fn times_each(&self) -> bool {
        self.rate.is_some() && self.mode != Mode::Mixed || self.mode == Mode::Latency
    }

    pub(super) fn time(&self) -> Option<Duration> {
        self.time_s.map(Duration::from_secs_f64)
    }

    pub(super) fn lifetime(&self) -> Option<Duration> {
        self.lifetime_ms.map(Duration::from_millis)
    }
}
