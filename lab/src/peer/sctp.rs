//! SCTP by usrsctp. The process of a side becomes the C program `peers/sctp.c`.

use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::{Peer, Work, version};
use crate::job::{Figures, Job, Sent, Want};

const SOURCE: &str = include_str!("../../peers/sctp.c");
/// Header of the library. Without it, usrsctp is not installed.
const HEADER: &str = "/usr/include/usrsctp.h";
/// Debian package that has the library.
const PACKAGE: &str = "libusrsctp-dev";
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
        program().err().map(|error| format!("{error:#}"))
    }

    fn can(&self, job: &Job) -> bool {
        !matches!(job, Job::Messages { size, .. } if *size > LONGEST)
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
    let program = match program() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let mut command = Command::new(program);
    command.arg(side).args(words(job)).arg(addresses.join(",")).args(word);
    anyhow::Error::from(command.exec()).context("cannot start the SCTP program")
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
    }
}

/// Returns the path of the program. It is built beside this one if it is missing or out of date.
fn program() -> anyhow::Result<PathBuf> {
    ensure!(Path::new(HEADER).exists(), "usrsctp is not installed: `apt-get install {PACKAGE}`");
    let here = std::env::current_exe()?;
    let directory = here.parent().context("this program has no directory")?;
    let (source, program) = (directory.join("sctp.c"), directory.join("lab-sctp"));
    if program.exists() && std::fs::read_to_string(&source).is_ok_and(|built| built == SOURCE) {
        return Ok(program);
    }
    // Several processes may build it at a time. Each builds a copy of its own, and the last one stays.
    let mine = directory.join(format!("lab-sctp-{}", std::process::id()));
    let mine_source = mine.with_extension("c");
    std::fs::write(&mine_source, SOURCE)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-o"]).arg(&mine).arg(&mine_source).args(["-lusrsctp", "-lpthread"]);
    let output = compiler.output().context("no C compiler: `apt-get install gcc`")?;
    ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr).trim());
    std::fs::rename(&mine, &program)?;
    std::fs::rename(&mine_source, &source)?;
    Ok(program)
}
