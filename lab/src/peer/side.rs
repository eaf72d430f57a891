//! The parts that both sides of a trial share: how they report, and how they end.

use std::io::{Read, Write};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;

use super::tally::Tally;
use crate::clock;
use crate::job::{Figures, Job, Sent};

/// Time after which a side that was told to end is ended by force.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time within which a side is told to end after the other side has gone.
const GRACE: Duration = Duration::from_secs(5);

static ENDING: OnceLock<watch::Sender<bool>> = OnceLock::new();

/// Reports that this side listens, and the word that the other side needs to connect.
pub(crate) fn ready(word: &str) -> anyhow::Result<()> {
    say("ready", word)
}

/// Reports the connect call.
pub(super) fn started() -> anyhow::Result<()> {
    say("started", &clock::now().to_string())
}

/// Prints a line.
pub(crate) fn say(word: &str, what: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word} {what}")?;
    Ok(out.flush()?)
}

/// Waits until standard input is closed.
pub(crate) async fn ended() {
    let mut ending = ENDING.get_or_init(|| watch::Sender::new(false)).subscribe();
    // The sender is never dropped.
    ending.wait_for(|ended| *ended).await.ok();
}

/// Watches standard input. When it closes, this process ends.
fn watch_input() {
    let ending = ENDING.get_or_init(|| watch::Sender::new(false));
    std::thread::spawn(move || {
        let (mut input, mut ignored) = (std::io::stdin().lock(), [0; 256]);
        while input.read(&mut ignored).is_ok_and(|length| length > 0) {}
        ending.send_replace(true);
        std::thread::sleep(PATIENCE);
        say("failed", &format!("did not end within {PATIENCE:?} of being told to")).ok();
        std::process::exit(1);
    });
}

/// Runs one side. Prints its findings after `word`, or the reason after `failed`.
pub(crate) fn run<T: serde::Serialize>(
    word: &str,
    side: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<()> {
    watch_input();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(side) {
        Ok(found) => say(word, &serde_json::to_string(&found)?)?,
        Err(error) => {
            // The reason goes into a cell of a table, so it is one line.
            say("failed", &format!("{error:#}").replace('\n', " "))?;
            std::process::exit(1);
        }
    }
    // Tasks that still run and the thread that reads the input must not keep the process alive.
    std::process::exit(0);
}

/// Receives until the job is done or this side is told to end.
pub(super) async fn receive(
    job: &Job,
    body: impl AsyncFnOnce(&mut Tally) -> anyhow::Result<()>,
) -> anyhow::Result<Figures> {
    let mut tally = Tally::new(job);
    until_told(body(&mut tally)).await?;
    let mut figures = tally.into_figures();
    figures.cpu = cpu();
    Ok(figures)
}

/// Sends until the job is done or this side is told to end.
pub(super) async fn send(body: impl AsyncFnOnce(&mut Sent) -> anyhow::Result<()>) -> anyhow::Result<Sent> {
    let mut sent = Sent::default();
    until_told(body(&mut sent)).await?;
    sent.cpu = cpu();
    Ok(sent)
}

/// Runs a side until it is done or told to end. An error just before it is told to end is no failure of the trial,
/// because the other side may already have gone.
async fn until_told(body: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let result = tokio::select! {
        result = body => result,
        () = ended() => return Ok(()),
    };
    match result {
        Err(error) if tokio::time::timeout(GRACE, ended()).await.is_err() => Err(error),
        _ => Ok(()),
    }
}

/// Returns the processor time of this process in seconds.
fn cpu() -> f64 {
    processor_time().map_or(0.0, |time| time.as_secs_f64())
}

fn processor_time() -> anyhow::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code, reason = "the standard library does not tell processor time")]
    // SAFETY: `time` is valid for writes.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    anyhow::ensure!(result == 0, "cannot read the processor time");
    let nanos = u32::try_from(time.tv_nsec).context("nanoseconds")?;
    Ok(Duration::new(u64::try_from(time.tv_sec).context("seconds")?, nanos))
}
