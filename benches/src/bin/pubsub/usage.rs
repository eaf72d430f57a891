//! Resources of processes, from `/proc`.

use std::iter::Sum;
use std::time::Duration;

use anyhow::Context;

/// Resources of one process or of several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Resident memory, bytes.
    pub(crate) resident: u64,
    /// Processor time of all threads so far.
    pub(crate) cpu: Duration,
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            resident: sum.resident + one.resident,
            cpu: sum.cpu + one.cpu,
        })
    }
}

/// Returns what a process uses. `self` is this one.
pub(crate) fn usage(process: &str) -> anyhow::Result<Usage> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse()?;
    let mut cpu = Duration::ZERO;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let schedstat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        cpu += Duration::from_nanos(schedstat.split(' ').next().context("no schedstat")?.parse()?);
    }
    Ok(Usage { resident: kilobytes << 10, cpu })
}
