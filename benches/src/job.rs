//! What is to be measured.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// UDP payload of bulk packets, bytes, for all that choose their own.
pub(crate) const BULK: usize = 1452;
/// A small message, bytes.
pub(crate) const SMALL: usize = 50;
/// A question, and its answer, bytes.
pub(crate) const PING: usize = 64;
/// Small messages handed over together.
pub(crate) const BATCH: usize = 64;

/// A way to use a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// As many bytes as will go, in order where the transport has an order.
    Bulk,
    /// 50-byte messages in one ordered stream, a call each.
    Each,
    /// 50-byte messages in one ordered stream, 64 a call.
    Batch,
    /// 50-byte messages as datagrams.
    Datagrams,
    /// 64-byte round trips, one at a time.
    Latency,
}

impl Workload {
    /// All, in the order of the table.
    pub(crate) const ALL: [Self; 5] = [Self::Bulk, Self::Each, Self::Batch, Self::Datagrams, Self::Latency];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Each => "each",
            Self::Batch => "batch",
            Self::Datagrams => "datagrams",
            Self::Latency => "latency",
        }
    }

    /// Bytes of a message; bulk has none.
    pub(crate) fn message(self) -> Option<usize> {
        match self {
            Self::Bulk => None,
            Self::Each | Self::Batch | Self::Datagrams => Some(SMALL),
            Self::Latency => Some(PING),
        }
    }
}

/// One side of one measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Job {
    /// Which peer.
    #[arg(long)]
    pub(crate) peer: String,
    /// Which workload.
    #[arg(long)]
    pub(crate) workload: Workload,
    /// Seconds measured, after a warm-up.
    #[arg(long)]
    pub(crate) time: f64,
    /// Multi-threaded runtime instead of a single thread.
    #[arg(long)]
    pub(crate) threads: bool,
    /// Leave it to the system where a side runs.
    #[arg(long)]
    pub(crate) free: bool,
}

impl Job {
    /// How long it measures.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs_f64(self.time)
    }

    /// Puts this process on a core of its own, if it has but one thread, there are two
    /// cores and it is not to run free.
    pub(crate) fn pin(&self, core: usize) {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        if !self.threads && !self.free && cores.len() >= 2 {
            core_affinity::set_for_current(cores[core]);
        }
    }
}
