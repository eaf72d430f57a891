//! `whimbrel perf serve`: the other end of any number of measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Error, anyhow, bail};
use clap::Args;
use tokio::sync::Notify;
use tokio::time::Instant;
use whimbrel::{Message, Mocket};
use whimbrel_service::{ActivityLog, Listening};

use super::clock::{clock_id, monotonic_ns};
use super::control::{Control, ControlSender, Start, VERSION, parse};
use super::ending::PATIENCE;
use super::sink::{Far, Sink};
use super::source::Source;
use crate::closed::sentence;
use crate::commands::{self, CAT, OTHER_COMMAND, is_cat};
use crate::dial::{ListenArgs, TransportOptions};
use crate::monitor::{MonitorOptions, start, until_stopped};
use crate::output::{note, print_line};
use crate::process::{RuntimeOptions, STOP_PATIENCE};
use crate::settings::{Reload, Sources};

/// The longest time ago that a client may claim its measurement began.
const LONGEST_OPENING: Duration = Duration::from_secs(600);
/// The most messages and bytes accepted before it is clear what they are: anyone may send them.
const EARLY: usize = 1 << 16;
const EARLY_BYTES: usize = 64 << 20;
/// How long a client may take to say what it wants.
const SHYNESS: Duration = Duration::from_secs(15);
const NO_PERF: &str = "the other end runs something other than `whimbrel perf`, or another version of it: run the same program at both ends";
/// A client that does not say what it wants to measure.
const SILENT: TurnedAway = TurnedAway {
    code: FAILED,
    here: "the other end did not say what to measure: run `whimbrel perf run` there",
    there: "this is `whimbrel perf serve`, and nobody said what to measure: connect with `whimbrel perf run`",
};
/// A client that is `whimbrel cat`.
const OTHER: TurnedAway =
    TurnedAway { code: OTHER_COMMAND, here: commands::SENTENCE, there: commands::SENTENCE };
/// The most bytes that may wait in the send queue, unless the command line or a file says otherwise.
const QUEUE: u64 = 4 << 20;
/// The code of the abort if a measurement cannot be made.
const FAILED: u64 = 1;

/// Serves measurements, any number at a time, until Ctrl-C or SIGTERM.
///
/// Both signals are its regular end, with exit code 0; a second one ends it at once. The first line of output is `listening whimbrel://KEY@HOST:PORT`; give that URL to
/// `whimbrel perf run`.
#[derive(Args, Clone, Debug)]
pub(super) struct ServeCommand {
    #[command(flatten)]
    listen: ListenArgs,
    /// Congestion control and repeats hold for what this end sends: with --reverse at the other end.
    #[command(flatten)]
    transport: TransportOptions,
    #[command(flatten)]
    runtime: RuntimeOptions,
    #[command(flatten)]
    monitor: MonitorOptions,
    /// The most bytes that may wait in the send queue [default: 4Mi, or with --config what the file says].
    #[arg(long, value_name = "BYTES", value_parser = crate::units::bytes)]
    queue: Option<u64>,
}

impl ServeCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.serve())
    }

    async fn serve(mut self) -> anyhow::Result<()> {
        self.listen.tickets = true;
        let sources = Sources {
            queue: self.queue.or(self.listen.config.is_none().then_some(QUEUE)),
            listen: self.listen,
            transport: self.transport,
            monitor: self.monitor,
        };
        let settings = sources.read()?;
        let Listening { endpoint, url } = settings.listen(sources.transport.paths.paths()?).await?;
        let counts = Arc::new(Counts::default());
        let mut service =
            start("perf serve", &settings.service, sources.file(), &endpoint, counts.status()).await?;
        let mut reload = Reload::new(sources, settings, &endpoint);
        print_line(format_args!("listening {url}"))?;
        let activity = service.activity();
        let accepting = async {
            while let Some(mocket) = endpoint.accept().await {
                tokio::spawn(serve(mocket, Arc::clone(&counts), activity.clone()));
            }
        };
        tokio::select! {
            () = accepting => bail!("the socket has failed: start again"),
            _ = until_stopped(&mut service, &mut reload) => {}
        }
        service.finish(0, "the server was stopped", STOP_PATIENCE).await?;
        Ok(())
    }
}

/// Measurements so far.
#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn status(self: &Arc<Self>) -> impl Fn() -> serde_json::Value + Send + Sync + 'static {
        let counts = Arc::clone(self);
        move || {
            let (begun, failed) =
                (counts.begun.load(Ordering::Relaxed), counts.failed.load(Ordering::Relaxed));
            serde_json::json!({ "measurements": begun, "failed": failed })
        }
    }
}

async fn serve(mocket: Mocket, counts: Arc<Counts>, activity: Option<ActivityLog>) {
    let log = |what: &str, more| activity.as_ref().is_none_or(|activity| activity.note(what, more));
    let (peer, remote) = (mocket.peer_key(), mocket.peer_addr());
    counts.begun.fetch_add(1, Ordering::Relaxed);
    log("measurement begun", serde_json::json!({ "peer": peer, "remote": remote }));
    match measure(mocket).await {
        Ok(()) => drop(log("measurement done", serde_json::json!({ "peer": peer, "remote": remote }))),
        Err(error) => {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            log(
                "measurement failed",
                serde_json::json!({ "peer": peer, "remote": remote, "why": sentence(&error) }),
            );
            note(format_args!("{remote}: {}", sentence(&error)));
        }
    }
}

/// Runs one measurement. If it fails, the client is told why.
async fn measure(mocket: Mocket) -> anyhow::Result<()> {
    let measured = carry_out(&mocket).await;
    if let Err(error) = &measured {
        give_up(&mocket, error);
    }
    measured
}

/// Ends the session with an error that is this end's, and tells the other end why.
pub(super) fn give_up(mocket: &Mocket, error: &Error) {
    match error.downcast_ref::<TurnedAway>() {
        Some(away) => mocket.abort(away.code, away.there),
        None => mocket.abort(FAILED, &sentence(error)),
    }
}

async fn carry_out(mocket: &Mocket) -> anyhow::Result<()> {
    if mocket.protocol() == CAT {
        bail!(OTHER);
    }
    let opening = tokio::time::timeout(SHYNESS, await_start(mocket)).await;
    let (start, early) = opening.map_err(|_| Error::new(SILENT))??;
    check(&start).map_err(Error::msg)?;
    let one_clock = match (clock_id(), &start.clock) {
        (Some(clock), Some(mark)) => mark.is_of(&clock),
        _ => false,
    };
    let control = ControlSender::new(mocket);
    control.send(&Control::Hello { one_clock }).await?;
    let plan = &start.plan;
    // The client decides when it is over.
    let never = Notify::new();
    if plan.reverse {
        let elapsed = Duration::from_nanos(start.elapsed_ns).min(LONGEST_OPENING);
        let began = Instant::now().checked_sub(elapsed);
        let source = Source::new(mocket, plan, began.unwrap_or_else(Instant::now), PATIENCE);
        // The source ends when the client has all it wants and closes.
        source.run(|_, _| {}, &never).await;
        return Ok(());
    }
    let start_ns = if one_clock { start.connect_ns } else { estimate_start(mocket, &start) };
    let start_ns = plausible(start_ns, monotonic_ns());
    let taken = Sink::new(mocket, plan, start_ns, one_clock, PATIENCE).run(early, &mut Far, &never).await;
    if taken.cut.is_none() {
        control.send(&Control::Report(taken.received)).await?;
        mocket.closed().await;
    }
    Ok(())
}

/// Reads until the client says what it wants. Returns that, and the messages before it with their arrival times.
async fn await_start(mocket: &Mocket) -> anyhow::Result<(Start, Vec<(u64, Message)>)> {
    let (start, early) = await_control(mocket, |control| match control {
        Control::Start(start) => Some(start),
        _ => None,
    })
    .await?;
    Ok((start, early))
}

/// Reads until the wanted control message. Returns it, and the messages before it with their arrival times.
pub(super) async fn await_control<T>(
    mocket: &Mocket,
    mut wanted: impl FnMut(Control) -> Option<T>,
) -> anyhow::Result<(T, Vec<(u64, Message)>)> {
    let (mut early, mut bytes) = (Vec::new(), 0);
    loop {
        let message = mocket.recv().await?;
        if is_cat(&message) {
            bail!(OTHER);
        }
        match parse(&message) {
            Some(control) => {
                // The details of the parse error do not help anyone.
                let control = control.map_err(|_| anyhow!(NO_PERF))?;
                if let Some(found) = wanted(control) {
                    return Ok((found, early));
                }
            }
            None => {
                bytes += message.payload.len();
                early.push((monotonic_ns(), message));
            }
        }
        if early.len() > EARLY || bytes > EARLY_BYTES {
            bail!(SILENT);
        }
    }
}

/// The error that a client wants no measurement. Each end says it from its own side.
#[derive(Debug)]
struct TurnedAway {
    code: u64,
    here: &'static str,
    there: &'static str,
}

impl std::fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.here)
    }
}

impl std::error::Error for TurnedAway {}

fn check(start: &Start) -> Result<(), String> {
    if start.version != VERSION {
        return Err("the two ends run different versions of perf: update the older one".into());
    }
    start.plan.check()
}

/// Limits the client's start time, which may be any value: not after now, nor longer ago than a handshake can take.
fn plausible(start_ns: u64, now_ns: u64) -> u64 {
    start_ns.clamp(now_ns.saturating_sub(LONGEST_OPENING.as_nanos() as u64), now_ns)
}

/// Estimates by our clock when the client began to connect. The client says how long ago that was when it sent its
/// message, and the message took half a round trip.
fn estimate_start(mocket: &Mocket, start: &Start) -> u64 {
    let rtt = mocket.stats().connection.paths.first().map_or(Duration::ZERO, |path| path.rtt_min);
    let rtt = if rtt > Duration::from_secs(3600) { Duration::ZERO } else { rtt };
    monotonic_ns().saturating_sub(start.elapsed_ns).saturating_sub(rtt.as_nanos() as u64 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_that_cannot_be_is_moved_to_one_that_can() {
        let hour = 3_600_000_000_000;
        assert_eq!(plausible(u64::MAX, hour), hour);
        assert_eq!(plausible(0, hour), hour - LONGEST_OPENING.as_nanos() as u64);
        assert_eq!((plausible(hour - 5, hour), plausible(0, 7)), (hour - 5, 0));
    }
}
