//! Receives everything from one connection at the far end, and notes when it arrived.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use whimbrel::{CloseReason, Message, Mocket, Stream};
use whimbrel_cli::perf::monotonic_ns;

use crate::cargo::{self, kind};
use crate::far::say;
use crate::report::{Arrival, Report, Word};

/// How often progress is reported.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Receives until the near end closes.
pub(crate) async fn receive(mocket: Mocket) -> Report {
    let mut receiver =
        Receiver { report: Report::default(), seen: BTreeSet::new(), messages: 0, told: Instant::now() };
    if let Err(error) = receiver.run(&mocket).await {
        receiver.report.error = Some(format!("{error:#}"));
    }
    receiver.report
}

struct Receiver {
    report: Report,
    /// The kind and number of every stamped message.
    seen: BTreeSet<(u32, u64)>,
    messages: u64,
    told: Instant,
}

impl Receiver {
    async fn run(&mut self, mocket: &Mocket) -> anyhow::Result<()> {
        let opening = mocket.recv().await?;
        anyhow::ensure!(opening.ppid == Some(kind::OPENING), "the first message names no lane");
        self.report.lane = String::from_utf8_lossy(&opening.payload).into_owned();
        loop {
            tokio::select! {
                message = mocket.recv() => match message {
                    Ok(message) => self.on_message(&message)?,
                    Err(closed) => return ended(&closed.0),
                },
                stream = mocket.accept_stream() => match stream {
                    Ok(stream) => self.read(stream).await?,
                    // Messages that arrived before are still to be read.
                    Err(_) => while let Some(message) = mocket.try_recv() {
                        self.on_message(&message)?;
                    },
                },
            }
        }
    }

    fn on_message(&mut self, message: &Message) -> anyhow::Result<()> {
        let arrived_ns = monotonic_ns();
        let kind = message.ppid.unwrap_or_default();
        let Some((number, sent_ns)) = cargo::stamp(&message.payload) else {
            anyhow::bail!("a message of {} bytes has no stamp", message.payload.len());
        };
        if !self.seen.insert((kind, number)) {
            self.report.duplicated += 1;
            return Ok(());
        }
        self.messages += 1;
        if kind == kind::BULK {
            self.report.bytes += message.payload.len() as u64;
            self.report.bulk_messages += 1;
            self.report.last_ns = arrived_ns;
        } else {
            self.report.arrivals.push(Arrival { kind, number, sent_ns, arrived_ns });
        }
        self.tell()
    }

    async fn read(&mut self, mut stream: Stream) -> anyhow::Result<()> {
        let (mut buffer, mut hash) = (vec![0; 65_536], Context::new(&SHA256));
        loop {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                break;
            }
            let now = monotonic_ns();
            if self.report.last_ns > 0 {
                self.report.longest_gap_ns = self.report.longest_gap_ns.max(now - self.report.last_ns);
            }
            hash.update(&buffer[..count]);
            self.report.last_ns = now;
            self.report.bytes += count as u64;
            self.tell()?;
        }
        self.report.sha256 = cargo::hex(hash.finish().as_ref());
        Ok(())
    }

    fn tell(&mut self) -> anyhow::Result<()> {
        if self.told.elapsed() < TELL_EVERY {
            return Ok(());
        }
        self.told = Instant::now();
        let Report { lane, bytes, .. } = &self.report;
        say(&Word::Progress { lane: lane.clone(), bytes: *bytes, messages: self.messages })
    }
}

fn ended(reason: &CloseReason) -> anyhow::Result<()> {
    match reason {
        CloseReason::Local | CloseReason::Peer(_) => Ok(()),
        other => anyhow::bail!("the connection broke: {other}"),
    }
}
