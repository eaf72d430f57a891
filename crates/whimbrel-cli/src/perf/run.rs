//! `whimbrel perf run`: one measurement, and its figures.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use tokio::sync::Notify;
use tokio::time::Instant;
use whimbrel::Mocket;

use super::clock::{clock_id, cpu_time, monotonic_ns};
use super::control::{Control, ControlSender, Start, VERSION};
use super::ending::Cut;
use super::figures::{Counted, Document, Interval, Received, Sent, paths};
use super::plan::{Mode, Plan};
use super::screen::{Screen, print};
use super::serve::await_control;
use super::sink::{Sink, Taken};
use super::source::{Given, LAST_FIGURES, Source, within};
use super::ticket::TicketFile;
use crate::dial::{Dial, DialOptions, TransportOptions};
use crate::process::{Interrupted, Interrupts, RuntimeOptions, abort_all};
use crate::service::ServiceName;
use crate::units;

const EXAMPLES: &str = "\
Examples:
  How fast? (10 s of bulk; the other end printed the URL)
    whimbrel perf run whimbrel://KEY@host:4433 --mode bulk
  A download of 100 MB, figures for a program:
    whimbrel perf run whimbrel://KEY@host:4433 --mode bulk --bytes 100M --reverse --json
  Messages of 50 bytes, as many as possible, handed over 64 at a time:
    whimbrel perf run whimbrel://KEY@host:4433 --mode messages --batch 64
  Round trips on an idle path:
    whimbrel perf run whimbrel://KEY@host:4433 --mode latency
  Position updates, ten a second, each replacing the one before while it has not arrived:
    whimbrel perf run whimbrel://KEY@host:4433 --mode latency --rate 10 --replace --time 60";

/// Longest wait for the source's figures once everything has arrived.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// Why a measurement is not complete that has all but those.
const SILENT: &str = "the other end does not say what it has sent";

/// Measures the path to a `whimbrel perf serve`.
///
/// Figures are those of whoever receives; seconds count from the connect call. Loads with an end of their own (--bytes, --rate) count to
/// the last delivery, others are cut off when the time is over. Ctrl-C ends it with the figures so far, a second one at once. Latency is
/// one way where both ends share a clock (one machine), else, in latency mode, half the round trip of messages that are sent back, and none
/// in other modes. docs/perf.md describes the document that --json prints.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunCommand {
    #[command(flatten)]
    dial: DialOptions,
    /// The kind of load.
    #[arg(long, value_enum, default_value_t = Mode::Bulk)]
    mode: Mode,
    /// How messages travel: reliable or unreliable, sequenced or unsequenced.
    #[arg(long, value_enum, default_value_t = ServiceName::Rs)]
    service: ServiceName,
    /// Bytes of a message [default: bulk and mixed 32768, messages 50, latency 64].
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    size: Option<u64>,
    /// Messages handed to the transport in one call.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// Messages a second [default: as many as possible; mixed: 100 urgent ones].
    #[arg(long, value_name = "MESSAGES/S")]
    rate: Option<f64>,
    /// Messages older than this are given up; milliseconds, or with a unit.
    #[arg(long, value_name = "MS", value_parser = units::millis)]
    lifetime: Option<Duration>,
    /// Each message replaces the one before, if that has not arrived. Needs --rate.
    #[arg(long)]
    replace: bool,
    /// How long, seconds [default: 10].
    #[arg(long, value_name = "S", value_parser = units::time, conflicts_with = "bytes")]
    time: Option<Duration>,
    /// How much, instead.
    #[arg(long, value_name = "N", value_parser = units::bytes)]
    bytes: Option<u64>,
    /// The other end sends. Latency mode without --rate is a round trip and has no direction: there it needs --rate.
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    transport: TransportOptions,
    /// Begin with the ticket in this file, if there is one, and leave there what the next measurement may begin with: data then
    /// travels with the first packet, at the rate that the path had. A ticket is for one key and as secret as that.
    #[arg(long, value_name = "FILE", requires = "key")]
    ticket: Option<PathBuf>,
    /// Bytes that may wait in the send queue.
    #[arg(long, value_name = "BYTES", default_value = "4Mi", value_parser = units::bytes)]
    queue: u64,
    #[command(flatten)]
    runtime: RuntimeOptions,
    /// Print exactly one JSON document, at the end.
    #[arg(long)]
    json: bool,
    /// Behave as if the two ends shared no clock.
    #[arg(long, hide = true)]
    own_clock: bool,
}

impl RunCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let plan = self.plan();
        if let Err(wrong) = plan.check() {
            bail!(wrong);
        }
        self.runtime.block_on(self.measure(plan))
    }

    fn plan(&self) -> Plan {
        let size = self.size.unwrap_or(match self.mode {
            Mode::Bulk | Mode::Mixed => 32_768,
            Mode::Messages => 50,
            Mode::Latency => 64,
        });
        let time = match (self.time, self.bytes) {
            (None, None) => Some(Duration::from_secs(10)),
            (time, _) => time,
        };
        Plan {
            mode: self.mode,
            service: self.service,
            size: usize::try_from(size).unwrap_or(usize::MAX),
            batch: self.batch,
            rate: self.rate,
            lifetime_ms: self.lifetime.map(|lifetime| lifetime.as_millis() as u64),
            replace: self.replace,
            time_s: time.map(|time| time.as_secs_f64()),
            bytes: self.bytes,
            reverse: self.reverse,
        }
    }

    async fn measure(self, plan: Plan) -> anyhow::Result<()> {
        let mut interrupts = Interrupts::listen()?;
        let mut transport = self.transport.config();
        transport.session.send_queue_bytes = self.queue;
        let mut dial = self.dial.prepare(transport, self.transport.paths.paths()?).await?;
        let clock = clock_id().filter(|_| !self.own_clock);
        let measurement = Measurement { plan, clock, screen: Screen::new(self.json) };
        let endpoint = dial.endpoint().clone();
        let ticket = self.ticket.map(TicketFile::new);
        if let Some(ticket) = &ticket {
            ticket.load(&endpoint)?;
        }
        let stop = Notify::new();
        let measuring = async {
            let document = measurement.run(&mut dial, &stop).await;
            abort_all(&endpoint, "the measurement is over").await;
            document
        };
        let stopped_twice = async {
            interrupts.next().await;
            stop.notify_one();
            interrupts.next().await;
        };
        let document = tokio::select! {
            document = measuring => document,
            () = stopped_twice => {
                endpoint.abort_all(0, "interrupted");
                return Err(Interrupted.into());
            }
        };
        if let Some(ticket) = &ticket {
            ticket.save(&endpoint)?;
        }
        let document = document?;
        print(&document, self.json)?;
        match document.ended {
            None => Ok(()),
            Some(Cut::Interrupted) => Err(Interrupted.into()),
            Some(why) => bail!("the measurement ended early: {why}"),
        }
    }
}

struct Measurement {
    plan: Plan,
    clock: Option<String>,
    screen: Screen,
}

impl Measurement {
    /// To its end, or until it is to stop; then with the figures so far.
    async fn run(mut self, dial: &mut Dial, stop: &Notify) -> anyhow::Result<Document> {
        let (start, start_ns) = (Instant::now(), monotonic_ns());
        let mocket = tokio::select! {
            connected = dial.connect() => connected?,
            () = stop.notified() => return Err(Interrupted.into()),
        };
        let opening = Start {
            version: VERSION,
            plan: self.plan.clone(),
            clock: self.clock.clone(),
            connect_ns: start_ns,
            elapsed_ns: monotonic_ns() - start_ns,
        };
        ControlSender::new(&mocket).send(&Control::Start(opening)).await?;
        match self.plan.reverse {
            true => self.take(&mocket, start_ns, stop).await,
            false => self.give(&mocket, start, stop).await,
        }
    }

    /// We send.
    async fn give(&self, mocket: &Mocket, start: Instant, stop: &Notify) -> anyhow::Result<Document> {
        let source = Source::new(mocket, &self.plan, start);
        let screen = &self.screen;
        let given = source.run(|interval, mocket| screen.show(interval, mocket), stop).await;
        let Given { sent, received, progress, cut } = given;
        let received = match (received, &cut) {
            (Some(received), _) => received,
            // There was no connection: there is nothing to tell but why.
            (None, Some(Cut::Lost(why))) if mocket.peer_key().is_none() => bail!("{why}"),
            (None, _) => so_far(progress),
        };
        Ok(Document::new(&self.plan, &received, &sent, cut))
    }

    /// The other end sends.
    async fn take(&mut self, mocket: &Mocket, start_ns: u64, stop: &Notify) -> anyhow::Result<Document> {
        let cpu_start = cpu_time();
        let hello = |control| match control {
            Control::Hello { clock } => Some(clock),
            _ => None,
        };
        let (clock, early) = tokio::select! {
            hello = await_control(mocket, hello) => hello?,
            () = stop.notified() => return Err(Interrupted.into()),
        };
        let one_clock = clock.is_some() && clock == self.clock;
        let sink = Sink::new(mocket, &self.plan, start_ns, one_clock);
        let Taken { mut received, sent, mut cut } = sink.run(early, &mut self.screen, stop).await;
        received.cpu_s = (cpu_time() - cpu_start).as_secs_f64();
        let sent = match (sent, &cut) {
            (Some(sent), _) => sent,
            (None, Some(Cut::Lost(_))) => Sent::default(),
            (None, Some(Cut::Interrupted)) => {
                within(LAST_FIGURES, last_words(mocket)).await.flatten().unwrap_or_default()
            }
            (None, None) => {
                let words = tokio::select! {
                    words = within(LAST_WORDS, last_words(mocket)) => words.flatten().ok_or(Cut::Lost(SILENT.to_owned())),
                    () = stop.notified() => Err(Cut::Interrupted),
                };
                cut = words.as_ref().err().cloned();
                words.unwrap_or_default()
            }
        };
        received.paths = paths(mocket);
        Ok(Document::new(&self.plan, &received, &sent, cut))
    }
}

/// Stops the source and asks for its figures.
async fn last_words(mocket: &Mocket) -> Option<Sent> {
    drop(ControlSender::new(mocket).send(&Control::Stop).await);
    while let Ok(message) = mocket.recv().await {
        if let Some(Ok(Control::Done(sent))) = super::control::parse(&message) {
            return Some(sent);
        }
    }
    None
}

/// What is known of a measurement whose end was not heard.
fn so_far(progress: Option<Interval>) -> Received {
    let progress = progress.unwrap_or_default();
    let load = Counted {
        bytes: progress.total_bytes,
        messages: progress.total_messages,
        latency_us: progress.latency_us,
        last_s: progress.to_s,
        ..Counted::default()
    };
    Received { seconds: progress.to_s, load, ..Received::default() }
}
