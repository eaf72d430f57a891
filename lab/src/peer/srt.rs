//! SRT in live mode by libsrt. The process of a side becomes the C program `peers/srt.c`.

use std::net::IpAddr;

use super::native::Native;
use super::{Peer, Work, version};
use crate::job::{FRAMES, Figures, Job, Sent};

const PROGRAM: Native = Native {
    name: "srt",
    source: include_str!("../../peers/srt.c"),
    header: "/usr/include/srt/srt.h",
    package: "libsrt-openssl-dev",
    library: "srt",
};
/// Its receiver holds each packet until its time has come. This much earlier, frames are not late for that alone, ms.
const MARGIN: u64 = 3;

/// SRT.
pub(super) struct Srt {
    pub(super) name: &'static str,
    /// The packet filter, which adds packets against loss.
    pub(super) filter: Option<&'static str>,
}

impl Peer for Srt {
    fn name(&self) -> &'static str {
        self.name
    }

    fn settings(&self) -> String {
        format!(
            "SRT {} in live mode, unencrypted: frames in packets of 1,316 bytes; a latency of the time in which a frame is of use, \
             less the one-way delay and {MARGIN} ms{}",
            version::of_library("srt"),
            self.filter.map_or(String::new(), |filter| format!("; packet filter `{filter}`"))
        )
    }

    fn missing(&self) -> Option<String> {
        PROGRAM.missing()
    }

    fn can(&self, job: &Job) -> bool {
        matches!(job, Job::Frames { .. })
    }

    fn is_special(&self) -> bool {
        true
    }

    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures> {
        Box::pin(async move { Err(self.become_side("serve", job, at[0], None)) })
    }

    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent> {
        Box::pin(async move { Err(self.become_side("call", job, from[0], Some(to))) })
    }
}

impl Srt {
    /// Replaces this process with the program. Returns only if that fails.
    fn become_side(&self, side: &str, job: &Job, address: IpAddr, word: Option<&str>) -> anyhow::Error {
        let Job::Frames { rate, count, within, one_way } = *job else {
            return anyhow::anyhow!("SRT carries only frames here");
        };
        let latency = within.saturating_sub(one_way + MARGIN);
        let words = [
            side.to_owned(),
            rate.to_string(),
            count.to_string(),
            latency.to_string(),
            self.filter.unwrap_or("-").to_owned(),
            FRAMES.map(|size| size.to_string()).join(","),
            address.to_string(),
        ];
        PROGRAM.run(&words.into_iter().chain(word.map(str::to_owned)).collect::<Vec<_>>())
    }
}
