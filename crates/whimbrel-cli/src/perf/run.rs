//! `whimbrel perf run`: runs one measurement and prints its figures.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use whimbrel::{CloseReason, Mocket, PeerText, Service};
use whimbrel_service::Dial;

use super::clock::{ClockMark, clock_id, cpu_time, monotonic_ns};
use super::control::{Control, ControlSender, Start, VERSION};
use super::ending::{EarlyEnd, given_up, tell_reach};
use super::figures::{Document, Heard, Sent, paths};
use super::plan::{Mode, Plan};
use super::screen::{Screen, print};
use super::serve::{await_control, give_up};
use super::sink::{Sink, Taken};
use super::source::{Given, LAST_FIGURES, NO_SINK, Source, within};
use super::ticket::TicketFile;
use crate::closed::sentence;
use crate::dial::{DialArgs, TransportOptions};
use crate::output::note;
use crate::process::{Interrupted, Interrupts, Misused, RuntimeOptions, abort_all};
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
  Position updates, ten a second, each of which replaces the one before if that has not arrived:
    whimbrel perf run whimbrel://KEY@host:4433 --mode latency --rate 10 --replace --time 60";

/// The longest wait for the source's figures once everything has arrived.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// Why a measurement is incomplete if only those figures are missing.
const SILENT: &str = "the other end did not report what it sent";

/// Measures the path to a `whimbrel perf serve`.
///
/// The receiving end takes the figures, and seconds count from the connect call. A load with an end of its own
/// (--bytes, --rate) is measured to its last delivery; any other is cut off when the time is over. Ctrl-C or SIGTERM
/// ends the measurement and prints the figures so far; a second signal ends it at once. Latency is measured one way
/// if both ends share a clock (on one machine). If they do not, latency mode gives half the round trip of messages
/// that are sent back, and the other modes give none. docs/perf.md describes the document of --json.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunCommand {
    #[command(flatten)]
    dial: DialArgs,
    /// The kind of load.
    #[arg(long, value_enum, default_value_t = Mode::Bulk)]
    mode: Mode,
    /// How messages travel: reliable (r) or unreliable (u), sequenced (s) or unsequenced (u).
    #[arg(long, value_name = "rs|ru|us|uu", default_value = "rs")]
    service: Service,
    /// Length of a message in bytes [default: 32768 in bulk and mixed mode, 50 in messages mode, 64 in latency mode].
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    size: Option<u64>,
    /// How many messages are handed to the transport in one call.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// Messages per second [default: as many as possible; in mixed mode 100 urgent ones].
    #[arg(long, value_name = "MESSAGES/S")]
    rate: Option<f64>,
    /// Give up messages that are older than this; milliseconds, or a number with a unit.
    #[arg(long, value_name = "MS", value_parser = units::millis)]
    lifetime: Option<Duration>,
    /// Let each message replace the one before it, if that has not arrived. Needs --rate.
    #[arg(long)]
    replace: bool,
    /// How long to measure, in seconds or with a unit [default: 10].
    #[arg(long, value_name = "S", value_parser = units::time, conflicts_with = "bytes")]
    time: Option<Duration>,
    /// How many bytes to send, instead of for how long.
    #[arg(long, value_name = "N", value_parser = units::bytes)]
    bytes: Option<u64>,
    /// Let the other end send. In latency mode this needs --rate, since a round trip has no direction.
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    transport: TransportOptions,
    /// Begin with the ticket in this file, if there is one, and leave one there for the next measurement. With a
    /// ticket, data travels with the first packet, at the rate that the path had. A ticket belongs to one key and is
    /// as secret as the key.
    #[arg(long, value_name = "FILE", requires = "key")]
    ticket: Option<PathBuf>,
    /// The most bytes that may wait in the send queue.
    #[arg(long, value_name = "BYTES", default_value = "4Mi", value_parser = units::bytes)]
    queue: u64,
    #[command(flatten)]
    runtime: RuntimeOptions,
    /// Print one JSON document at the end, and nothing else.
    #[arg(long)]
    json: bool,
    /// Behave as if the two ends shared no clock.
    #[arg(long, hide = true)]
    own_clock: bool,
}

impl RunCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let plan = self.plan();
        plan.check().map_err(Misused)?;
        let (runtime, json) = (self.runtime, self.json);
        let Measured { mut document, result } = match runtime.block_on(self.measure(plan.clone())) {
            Ok(measured) => measured,
            // After a second signal nothing is waited for.
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => Measured {
                document: Document::failed(&plan, EarlyEnd::Lost(shown(&error))),
                result: Err(error),
            },
        };
        document.error = result.as_ref().err().filter(|error| !error.is::<Interrupted>()).map(shown);
        print(&document, json)?;
        result
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

    async fn measure(self, plan: Plan) -> anyhow::Result<Measured> {
        let mut interrupts = Interrupts::listen()?;
        let mut transport = self.transport.config();
        transport.session.send_queue_bytes = self.queue;
        let mut dial = self.dial.prepare("", transport, self.transport.paths.paths()?).await?;
        let clock = clock_id().filter(|_| !self.own_clock);
        let measurement =
            Measurement { plan, clock, screen: Screen::new(self.json), patience: self.dial.wait.time() };
        let endpoint = dial.endpoint().clone();
        let ticket = self.ticket.map(TicketFile::new);
        if let Some(ticket) = &ticket {
            ticket.load(&endpoint)?;
        }
        let (stop, first) = (Notify::new(), Cell::new(None));
        let measuring = async {
            let document = measurement.run(&mut dial, &stop).await;
            abort_all(&endpoint, "the measurement is over").await;
            document
        };
        let stopped_twice = async {
            first.set(Some(interrupts.next().await));
            stop.notify_one();
            interrupts.next().await
        };
        let document = tokio::select! {
            document = measuring => document?,
            signal = stopped_twice => {
                endpoint.abort_all(0, "interrupted");
                return Err(signal.into());
            }
        };
        let saved = ticket.map_or(Ok(()), |ticket| ticket.save(&endpoint));
        let ended = match (&document.ended, first.get()) {
            (None, _) => Ok(()),
            (Some(EarlyEnd::Interrupted), Some(signal)) => Err(signal.into()),
            (Some(why), _) if document.has_figures() => Err(anyhow!("the measurement ended early: {why}")),
            (Some(why), _) => Err(anyhow!("{why}")),
        };
        Ok(Measured { document, result: ended.and(saved) })
    }
}

/// A document, and the result of the process.
struct Measured {
    document: Document,
    result: anyhow::Result<()>,
}

/// Formats an error as standard error will show it.
fn shown(error: &anyhow::Error) -> String {
    PeerText::show(&sentence(error)).to_string()
}

struct Measurement {
    plan: Plan,
    clock: Option<String>,
    screen: Screen,
    /// The time to wait for a peer out of reach.
    patience: Duration,
}

/// How long the other end may take to answer, as a multiple of the time allowed for connecting.
const ANSWER: u32 = 3;

impl Measurement {
    /// Measures to the end, or until stopped; then it returns the figures so far.
    async fn run(mut self, dial: &mut Dial, stop: &Notify) -> anyhow::Result<Document> {
        let (start, start_ns) = (Instant::now(), monotonic_ns());
        let mocket = tokio::select! {
            connected = dial.connect(note) => connected?,
            () = stop.notified() => return Ok(Document::failed(&self.plan, EarlyEnd::Interrupted)),
        };
        let opening = Start {
            version: VERSION,
            plan: self.plan.clone(),
            clock: self.clock.as_deref().and_then(ClockMark::new),
            connect_ns: start_ns,
            elapsed_ns: monotonic_ns().saturating_sub(start_ns),
        };
        let measuring = async {
            ControlSender::new(&mocket).send(&Control::Start(opening)).await?;
            match self.plan.reverse {
                true => self.take(&mocket, start, start_ns, stop).await,
                false => self.give(&mocket, start, stop).await,
            }
        };
        let mut document = tokio::select! {
            document = measuring => document?,
            never = tell_reach(&mocket) => match never {},
        };
        if document.ended == Some(CloseReason::HandshakeTimedOut.into()) {
            document.ended = Some(EarlyEnd::Lost(dial.no_answer(mocket.peer_addr().to_string()).to_string()));
        }
        Ok(document)
    }

    /// Measures with this end as the source.
    async fn give(&self, mocket: &Mocket, start: Instant, stop: &Notify) -> anyhow::Result<Document> {
        let source = Source::new(mocket, &self.plan, start, self.patience);
        let source = source.expecting_hello(start + self.patience * ANSWER);
        let screen = &self.screen;
        let given = source.run(|interval, mocket| screen.show(interval, mocket), stop).await;
        let Given { sent, received, progress, one_clock, cut } = given;
        let lost = matches!(cut, Some(EarlyEnd::Lost(_))) && one_clock.is_none();
        if (!mocket.is_established() || lost) && received.is_none() {
            // There was no connection, or no sink at the other end, so only the reason can be reported.
            return Ok(Document::failed(&self.plan, cut.unwrap_or(EarlyEnd::Interrupted)));
        }
        let heard =
            Heard { received: received.as_ref(), progress: progress.as_ref(), sent: Some(&sent), one_clock };
        Ok(Document::new(&self.plan, heard, cut))
    }

    /// Measures with the other end as the source.
    async fn take(
        &mut self,
        mocket: &Mocket,
        start: Instant,
        start_ns: u64,
        stop: &Notify,
    ) -> anyhow::Result<Document> {
        let cpu_start = cpu_time();
        let hello = |control| match control {
            Control::Hello { one_clock } => Some(one_clock),
            _ => None,
        };
        let (one_clock, early) = tokio::select! {
            hello = await_control(mocket, hello) => match hello {
                Ok(hello) => hello,
                Err(why) => {
                    give_up(mocket, &why);
                    return Ok(Document::failed(&self.plan, EarlyEnd::Lost(shown(&why))));
                }
            },
            () = stop.notified() => return Ok(Document::failed(&self.plan, EarlyEnd::Interrupted)),
            () = sleep_until(start + self.patience * ANSWER) => {
                return Ok(Document::failed(&self.plan, EarlyEnd::Lost(NO_SINK.to_owned())));
            }
        };
        let one_clock = one_clock && self.clock.is_some();
        let sink = Sink::new(mocket, &self.plan, start_ns, one_clock, self.patience);
        let Taken { mut received, sent, mut cut } = sink.run(early, &mut self.screen, stop).await;
        received.cpu_s = (cpu_time() - cpu_start).as_secs_f64();
        let sent = match (sent, &cut) {
            (Some(sent), _) => Some(sent),
            (None, Some(EarlyEnd::Lost(_))) => None,
            (None, Some(EarlyEnd::Interrupted)) => within(LAST_FIGURES, last_words(mocket)).await.flatten(),
            (None, None) => {
                let out_of_reach = given_up(mocket, None, self.patience);
                let words = tokio::select! {
                    words = within(LAST_WORDS, last_words(mocket)) => words.flatten().ok_or(EarlyEnd::Lost(SILENT.to_owned())),
                    () = stop.notified() => Err(EarlyEnd::Interrupted),
                    gone = out_of_reach => Err(gone),
                };
                cut = words.as_ref().err().cloned();
                words.ok()
            }
        };
        received.paths = paths(mocket);
        let heard = Heard {
            received: Some(&received),
            sent: sent.as_ref(),
            one_clock: Some(one_clock),
            ..Heard::default()
        };
        Ok(Document::new(&self.plan, heard, cut))
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
