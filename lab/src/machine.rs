//! The machine, the versions and the settings of a run.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::testbed::rattan;
use crate::{carrier, peer};

/// Name of the laboratory's own links, where they are compared with another emulator's.
pub(crate) const OURS: &str = "link";
/// Name of the other emulator.
pub(crate) const RATTAN: &str = "rattan";

/// First line of a samples file: the machine and the settings of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Name of the processor, from the kernel.
    pub(crate) cpu: String,
    /// Number of cores that this program may use.
    pub(crate) cores: usize,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Date and time of the start, UTC.
    pub(crate) date: String,
    /// Revision of this project.
    pub(crate) commit: String,
    /// Command line of the run.
    pub(crate) command: String,
    /// Seed of the first trial.
    pub(crate) seed: u64,
    /// Number of trials of each case that were requested.
    pub(crate) trials: u64,
    /// Number of light trials at a time.
    pub(crate) parallel: usize,
    /// Whether the run was shortened.
    pub(crate) quick: bool,
    /// All peers, pairs of proxies and link emulators.
    pub(crate) peers: Vec<PeerNote>,
}

/// Version and settings of a peer in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerNote {
    /// Name of the peer.
    pub(crate) name: String,
    /// Its version and settings.
    pub(crate) settings: String,
    /// Reason why the peer did not take part, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
}

impl Header {
    /// Describes this machine at this time. The caller fills in the settings of its run.
    pub(crate) fn here() -> Self {
        Self {
            cpu: cpu(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            date: output("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: output("git", &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]),
            command: command(),
            peers: peer::all()
                .iter()
                .map(|peer| PeerNote::of(*peer))
                .chain(carrier::notes())
                .chain(PeerNote::of_emulators())
                .collect(),
            ..Self::default()
        }
    }
}

impl Header {
    /// Returns whether a run with this header goes on with that of another: all is the same but when and how it was called.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        let called = |header: &Self| Self { date: String::new(), command: String::new(), ..header.clone() };
        called(self) == called(other)
    }
}

impl PeerNote {
    /// Describes a peer as it is now.
    pub(crate) fn of(peer: &dyn peer::Peer) -> Self {
        Self { name: peer.name().to_owned(), settings: peer.settings(), missing: peer.missing() }
    }

    /// Describes the link emulators, in the order of tables.
    pub(crate) fn of_emulators() -> [Self; 2] {
        let ours = "the laboratory's own: each host has a TUN device, and a thread between them runs the link model of whimbrel-sim";
        [
            Self { name: OURS.to_owned(), settings: ours.to_owned(), missing: None },
            Self { name: RATTAN.to_owned(), settings: rattan::settings(), missing: rattan::missing() },
        ]
    }
}

fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask lab {}", arguments.join(" "))
}
