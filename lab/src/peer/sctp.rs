//! SCTP by usrsctp. The process of a side becomes the C program `peers/sctp.c`.

use std::net::IpAddr;

use super::native::Native;
use super::{Peer, Work, version};
use crate::job::{Figures, Job, Sent, Want};

const PROGRAM: Native = Native {
    name: "sctp",
    source: include_str!("../../peers/sctp.c"),
    header: "/usr/include/usrsctp.h",
    package: "libusrsctp-dev",
    library: "usrsctp",
};
/// Longest message that the program takes.
const LONGEST: usize = 64 << 10;

/// SCTP.
pub(super) struct Sctp;

impl Peer for Sctp {
    fn name(&self) -> &'static str {
        "sctp"
    }

    fn settings(&self) -> String {
        format!(
            "SCTP by usrsctp {} over UDP (RFC 6951), with its own congestion control (RFC 9260): SCTP_NODELAY, buffers of 32 MiB, \
         RTO from 200 ms instead of 1 s and 1 s at first instead of 3, 100 retransmissions before it gives up; bulk in messages of \
         8 KiB, unordered; messages in order ordered, each at once unordered, within a time unordered with that lifetime \
         (PR-SCTP), the newest only ordered with a lifetime until the next is due, the last for ever",
            version::of_library("usrsctp")
        )
    }

    fn missing(&self) -> Option<String> {
        PROGRAM.missing()
    }

    fn can(&self, job: &Job) -> bool {
        match job {
            Job::Messages { size, .. } => *size <= LONGEST,
            Job::Frames { .. } => false,
            Job::Bulk | Job::Transfer { .. } => true,
        }
    }

    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures> {
        Box::pin(async move { Err(become_side("serve", job, at, None)) })
    }

    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent> {
        Box::pin(async move { Err(become_side("call", job, from, Some(to))) })
    }
}

/// Replaces this process with the program. Returns only if that fails.
fn become_side(side: &str, job: &Job, addresses: &[IpAddr], word: Option<&str>) -> anyhow::Error {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let own = [addresses.join(",")].into_iter().chain(word.map(str::to_owned));
    PROGRAM.run(&[side.to_owned()].into_iter().chain(words(job)).chain(own).collect::<Vec<_>>())
}

/// Returns the job as the program's arguments: load, bytes, size, rate, count, want, milliseconds.
fn words(job: &Job) -> [String; 7] {
    let words = |load: &str, bytes: u64, size: usize, rate: f64, count: u64, want: &str, ms: u64| {
        [
            load.into(),
            bytes.to_string(),
            size.to_string(),
            rate.to_string(),
            count.to_string(),
            want.into(),
            ms.to_string(),
        ]
    };
    match *job {
        Job::Bulk => words("bulk", 0, 0, 0.0, 0, "", 0),
        Job::Transfer { bytes } => words("transfer", bytes, 0, 0.0, 0, "", 0),
        Job::Messages { size, rate, count, want } => {
            let (want, ms) = match want {
                Want::Ordered => ("ordered", 0),
                Want::Each => ("each", 0),
                Want::Newest => ("newest", 0),
                Want::Within(ms) => ("within", ms),
            };
            words("messages", 0, size, rate, count, want, ms)
        }
        Job::Frames { .. } => unreachable!("it cannot do frames"),
    }
}
