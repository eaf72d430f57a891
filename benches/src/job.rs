//! The workloads, and one side of a measurement.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The UDP payload of bulk packets in bytes, for all peers whose packet size can be set.
pub(crate) const BULK: usize = 1452;
/// The size of a small message in bytes.
pub(crate) const SMALL: usize = 50;
/// The size of a request and of its answer in bytes.
pub(crate) const PING: usize = 64;
/// The number of small messages in one call.
pub(crate) const BATCH: usize = 64;

/// A way to use a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// As many bytes as possible, in order if the transport has an order.
    Bulk,
    /// 50-byte messages in one ordered stream, one per call.
    Each,
    /// 50-byte messages in one ordered stream, 64 per call.
    Batch,
    /// 50-byte messages as datagrams.
    Datagrams,
    /// 64-byte round trips, one at a time.
    Latency,
}

impl Workload {
    /// All workloads, in the order of the table.
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

    /// Returns the size of a message in bytes. `None`: bulk has no messages.
    pub(crate) fn message(self) -> Option<usize> {
        match self {
            Self::Bulk => None,
            Self::Each | Self::Batch | Self::Datagrams => Some(SMALL),
            Self::Latency => Some(PING),
        }
    }
}

/// One side of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Job {
    /// The peer.
    #[arg(long)]
    pub(crate) peer: String,
    /// The workload.
    #[arg(long)]
    pub(crate) workload: Workload,
    /// The duration of the measurement in seconds, after a warm-up.
    #[arg(long)]
    pub(crate) time: f64,
    /// Use a multi-threaded runtime instead of a single thread.
    #[arg(long)]
    pub(crate) threads: bool,
    /// Let the system choose the core.
    #[arg(long)]
    pub(crate) free: bool,
}

impl Job {
    /// Returns the duration of the measurement.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs_f64(self.time)
    }

    /// Pins this process to a core, unless it has several threads, may run on any core, or there is only one core.
    pub(crate) fn pin(&self, core: usize) {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        if !self.threads && !self.free && cores.len() >= 2 {
            core_affinity::set_for_current(cores[core]);
        }
    }
}
