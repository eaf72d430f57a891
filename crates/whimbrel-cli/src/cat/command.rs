//! The command line of `whimbrel cat`.

use std::time::Duration;

use anyhow::{Error, bail};
use clap::{Args, Subcommand};
use whimbrel::{Endpoint, Mocket};
use whimbrel_service::{Listening, StoppedBy};

use super::ending::EARLY;
use super::event_report::tell;
use super::input::Input;
use super::options::CatOptions;
use super::progress::Progress;
use super::suspend::{Haste, Leaving, ResumeOptions, leave_or};
use super::writer::Writer;
use super::{messages, stream};
use crate::commands::CAT;
use crate::dial::{DialArgs, ListenArgs};
use crate::monitor::{MonitorOptions, start, until_stopped};
use crate::output::{OutputClosed, note};
use crate::process::{Interrupted, Interrupts, STOP_PATIENCE, abort_all_with};
use crate::settings::{Reload, Sources};

const EXAMPLES: &str = "\
Examples:
  Lines between two terminals (the listener prints its URL on standard error):
    whimbrel cat listen --listen 0.0.0.0:4433
    whimbrel cat connect whimbrel://KEY@host:4433
  A file:
    whimbrel cat listen --bytes > copy
    whimbrel cat connect whimbrel://KEY@host:4433 --bytes < file
  Readings that are worthless after half a second and are not sent again when lost:
    sensor | whimbrel cat connect whimbrel://KEY@host:4433 --service us --lifetime 500 --tag 7
  A session that moves to another process or host (Ctrl-Z or SIGUSR1 writes the file; the peer waits):
    whimbrel cat connect whimbrel://KEY@host:4433 --key mine --suspend-to session
    whimbrel cat --resume-from session --key mine";

/// The code of the abort for a second peer.
const BUSY: u64 = 3;
/// The text for the peer if this end was interrupted.
const INTERRUPTED: &str = "interrupted";
/// How long to keep answering a peer that closes more slowly.
const LINGER: Duration = Duration::from_secs(5);

/// Carries messages or bytes between standard input and output and a peer.
///
/// Each line is one message. Each end sends its input, and ends once both inputs have ended and the other end has written its own; with
/// </dev/null an end only receives. A terminal shows the peer's control characters escaped; pipe the output to get them as they are.
///
/// Exit codes: 0 if everything has arrived, the session was suspended, or our output was closed; 1 after an error, also if the peer ended
/// early; 2 if the command line is wrong; 130 after Ctrl-C and 143 after SIGTERM, of which the peer is told.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_required = false,
    arg_required_else_help = true
)]
pub struct CatCommand {
    #[command(subcommand)]
    side: Option<Side>,
    #[command(flatten)]
    resume: Box<ResumeOptions>,
}

#[derive(Subcommand, Debug)]
enum Side {
    /// Waits for one peer. Prints `listening whimbrel://KEY@HOST:PORT` on standard error.
    Listen {
        #[command(flatten)]
        listen: ListenArgs,
        #[command(flatten)]
        monitor: MonitorOptions,
        #[command(flatten)]
        how: Box<CatOptions>,
    },
    /// Connects to a listener.
    Connect {
        #[command(flatten)]
        dial: DialArgs,
        #[command(flatten)]
        how: Box<CatOptions>,
    },
}

impl CatCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The peer, the input or the output failed, or the mocket ended before everything was transferred.
    pub fn run(self) -> anyhow::Result<()> {
        let Some(side) = self.side else {
            let how = self.resume.how.clone();
            how.check()?;
            return how.runtime.block_on(self.resume.carry());
        };
        let how = match &side {
            Side::Listen { how, .. } | Side::Connect { how, .. } => how.clone(),
        };
        how.check()?;
        how.runtime.block_on(side.carry(*how))
    }
}

impl Side {
    async fn carry(self, how: CatOptions) -> anyhow::Result<()> {
        let leaving = Leaving::prepare(&how)?;
        let haste = leaving.haste();
        let paths = how.transport.paths.paths()?;
        match self {
            Self::Listen { listen, monitor, .. } => {
                let sources = Sources { listen, transport: how.transport.clone(), monitor, queue: None };
                let settings = sources.read()?;
                leaving.check_key(settings.listen.key.as_deref())?;
                let Listening { endpoint, url } = settings.listen(paths).await?;
                let more = || serde_json::json!({});
                let mut service =
                    start("cat listen", &settings.service, sources.file(), &endpoint, more).await?;
                let mut reload = Reload::new(sources, settings, &endpoint);
                note(format_args!("listening {url}"));
                let accepting = async {
                    let Some(mocket) = endpoint.accept().await else {
                        bail!("the socket has failed: start again")
                    };
                    tokio::spawn(turn_away(endpoint.clone()));
                    carry_on(&mocket, leaving, &how, Progress::begin(how.bytes), &[]).await
                };
                tokio::pin!(accepting);
                let by = loop {
                    tokio::select! {
                        result = &mut accepting => return conclude(&endpoint, result).await,
                        by = until_stopped(&mut service, &mut reload) => if !haste.ask() { break by },
                    }
                };
                // The exchange is dropped after the close. If it were dropped before, its mocket would close without
                // saying that this is early.
                service.finish(EARLY, INTERRUPTED, STOP_PATIENCE).await?;
                Err(Error::new(match by {
                    StoppedBy::Signal(signal) => signal,
                    _ => Interrupted::TERMINATE,
                }))
            }
            Self::Connect { dial, .. } => {
                let interrupts = Interrupts::listen()?;
                leaving.check_key(dial.key.as_deref())?;
                let mut dial = dial.prepare(CAT, how.transport.config(), paths).await?;
                let endpoint = dial.endpoint().clone();
                let connecting = async {
                    let mocket = dial.connect(note).await?;
                    dial.established(&mocket).await?;
                    carry_on(&mocket, leaving, &how, Progress::begin(how.bytes), &[]).await
                };
                finish(&endpoint, connecting, interrupts, &haste).await
            }
        }
    }
}

/// Turns away further peers at once.
async fn turn_away(endpoint: Endpoint) {
    while let Some(mocket) = endpoint.accept().await {
        mocket.abort(BUSY, "this `whimbrel cat listen` already has a peer: start another for a second one");
    }
}

/// Carries on until both inputs have ended or the session leaves, and reports events meanwhile. `unsent` is input
/// that an earlier process read.
pub(super) async fn carry_on(
    mocket: &Mocket,
    leaving: Leaving,
    how: &CatOptions,
    progress: Progress,
    unsent: &[u8],
) -> anyhow::Result<()> {
    let mut output = Writer::start();
    let carried = carry_or_leave(mocket, leaving, how, progress, unsent, &mut output).await;
    if let Err(error) = &carried {
        // Abort now: dropping the mocket would close it gracefully, and the peer would believe that it has
        // everything.
        mocket.abort(EARLY, in_short(error));
    }
    // Data that arrived is written, however the exchange ended.
    let written = output.finish().await;
    carried.and(written)
}

async fn carry_or_leave(
    mocket: &Mocket,
    mut leaving: Leaving,
    how: &CatOptions,
    mut progress: Progress,
    unsent: &[u8],
    output: &mut Writer,
) -> anyhow::Result<()> {
    // After the end of input was announced, no more input can be sent.
    let mut input =
        if progress.said_all { Input::of(how.cut(), unsent) } else { Input::start(how.cut(), unsent)? };
    let patience = how.transport.config().close_timeout;
    let exchange = exchange(mocket, how, &mut input, output, &mut progress);
    let left = tokio::select! {
        left = leave_or(mocket, &mut leaving, patience, exchange) => left?,
        never = tell(mocket, how.show_paths) => match never {},
    };
    if let Some(mut left) = left {
        left.state.set_app_data(progress.save(&input.stop()));
        left.write(&leaving).await?;
    }
    Ok(())
}

async fn exchange(
    mocket: &Mocket,
    how: &CatOptions,
    input: &mut Input,
    output: &mut Writer,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    if how.bytes {
        stream::exchange(mocket, input, output, progress).await
    } else {
        messages::exchange(mocket, how, input, output, progress).await
    }
}

/// Why this end stops early, for the peer, without any details of this host.
fn in_short(error: &Error) -> &'static str {
    if error.is::<Interrupted>() {
        INTERRUPTED
    } else if error.is::<OutputClosed>() {
        "nobody reads its output any more"
    } else {
        "it failed"
    }
}

/// Runs to the end or until Ctrl-C. If the exchange fails, the peer is told. A session that is leaving is let go first.
pub(super) async fn finish(
    endpoint: &Endpoint,
    exchange: impl Future<Output = anyhow::Result<()>>,
    mut interrupts: Interrupts,
    haste: &Haste,
) -> anyhow::Result<()> {
    tokio::pin!(exchange);
    // An interrupted exchange is dropped after the abort. If it were dropped before, its mocket would close
    // gracefully.
    let result = loop {
        tokio::select! {
            result = &mut exchange => break result,
            signal = interrupts.next() => if !haste.ask() { break Err(signal.into()) },
        }
    };
    conclude(endpoint, result).await
}

/// Lets the peer know how the exchange has ended.
async fn conclude(endpoint: &Endpoint, result: anyhow::Result<()>) -> anyhow::Result<()> {
    match &result {
        // The peer may still ask whether its close was received.
        Ok(()) => drop(tokio::time::timeout(LINGER, endpoint.wait_idle()).await),
        Err(error) => abort_all_with(endpoint, EARLY, in_short(error)).await,
    }
    result
}
