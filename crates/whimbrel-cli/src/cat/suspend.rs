//! Suspending a session to a file, and resuming one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use tokio::sync::Notify;
use whimbrel::{CloseReason, Config, Mocket, ResumeError, SuspendError, SuspendMode, SuspendedMocket};
use whimbrel_service::key::own_or_temporary;
use whimbrel_service::private_file::Draft;
use whimbrel_service::{NoAnswer, bind};
use zeroize::Zeroizing;

use super::command::{carry_on, finish};
use super::options::CatOptions;
use super::progress::Progress;
use super::session_file::{self, passphrase};
use crate::dial::{PskOptions, WaitOption};
use crate::output::note;
use crate::process::Interrupts;

/// How long to wait before a failed write of the file is repeated.
const AGAIN: Duration = Duration::from_millis(500);
/// How long the peer's answer is waited for before that is said.
const QUIET: Duration = Duration::from_millis(500);

/// Options for resuming a session.
#[derive(Args, Clone, Debug)]
pub(super) struct ResumeOptions {
    /// Continue the session that --suspend-to left in this file. The file is then deleted, since a session is resumed once.
    #[arg(long, value_name = "FILE", required = true)]
    resume_from: Option<PathBuf>,
    /// The peer's address now [default: the one it had].
    #[arg(long, value_name = "ADDR:PORT")]
    peer: Option<SocketAddr>,
    /// The key file with which the session was suspended [default: ~/.config/whimbrel/key].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    psk: PskOptions,
    #[command(flatten)]
    wait: WaitOption,
    #[command(flatten)]
    pub(super) how: CatOptions,
}

impl ResumeOptions {
    pub(super) async fn carry(self) -> anyhow::Result<()> {
        let interrupts = Interrupts::listen()?;
        let leaving = Leaving::prepare(&self.how)?;
        let haste = leaving.haste();
        leaving.check_key(self.key.as_deref())?;
        let (mut transport, paths) = (self.how.transport.config(), self.how.transport.paths.paths()?);
        transport.handshake_timeout = self.wait.time();
        let file = self.resume_from.context("name the file: --resume-from FILE")?;
        let state = session_file::read(&file, passphrase(&self.how)?)?;
        let (progress, unsent) = Progress::load(state.app_data(), self.how.bytes)?;
        let (identity, temporary) = own_or_temporary(self.key.as_deref())?;
        let config =
            Config::default().identity(identity).transport(transport).paths(paths).psk(self.psk.read()?);
        let to = self.peer.unwrap_or(state.peer_addr());
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let endpoint = bind(config, (any, 0).into()).await?;
        let going_on = async {
            let mocket = endpoint.resume(&state, self.peer).await.map_err(|error| match error {
                ResumeError::Closed(CloseReason::HandshakeTimedOut) => anyhow!(
                    "{}. The session stays in {}: try again, or name where the peer is now with --peer",
                    NoAnswer {
                        address: to.to_string(),
                        wait: self.wait.time(),
                        own: endpoint.public_key(),
                        temporary
                    },
                    file.display()
                ),
                ResumeError::Refused(whimbrel_proto::ResumeError::Identity) => anyhow!(
                    "the session in {} was suspended under another key than {}: give the key file it was suspended with, --key FILE",
                    file.display(),
                    endpoint.public_key()
                ),
                other => other.into(),
            })?;
            std::fs::remove_file(&file).with_context(|| format!("cannot delete {}", file.display()))?;
            note(format_args!("resumed with {}", mocket.peer_addr()));
            carry_on(&mocket, leaving, &self.how, progress, unsent).await
        };
        finish(&endpoint, going_on, interrupts, &haste).await
    }
}

/// The signals that suspend a session, the file that it is suspended to, and the passphrase that seals it.
pub(super) struct Leaving {
    file: Option<PathBuf>,
    passphrase: Option<Zeroizing<String>>,
    haste: Haste,
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Leaving {
    /// Listens for the signals from now on, and checks the file's folder if there is a file to write.
    pub(super) fn prepare(how: &CatOptions) -> anyhow::Result<Self> {
        if let Some(file) = &how.suspend_to {
            check_folder(file)?;
        }
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            const SIGTSTP: i32 = 20;
            // Without a file, Ctrl-Z stops the process as usual: that signal is not caught.
            let second = if how.suspend_to.is_some() {
                SignalKind::from_raw(SIGTSTP)
            } else {
                SignalKind::user_defined1()
            };
            let signals = [signal(SignalKind::user_defined1())?, signal(second)?];
            Ok(Self {
                file: how.suspend_to.clone(),
                passphrase: passphrase(how)?,
                haste: Haste::default(),
                signals,
            })
        }
        #[cfg(not(unix))]
        {
            if how.suspend_to.is_some() {
                bail!("--suspend-to waits for a signal, which this system does not have: leave it out");
            }
            Ok(Self { file: None, passphrase: None, haste: Haste::default() })
        }
    }

    /// Checks the key: a key that ends with the process cannot resume a session.
    pub(super) fn check_key(&self, key: Option<&Path>) -> anyhow::Result<()> {
        if self.file.is_some() && own_or_temporary(key)?.1 {
            bail!(
                "--suspend-to needs a key that outlives this process: make one with `whimbrel key new`, or name it with --key"
            );
        }
        Ok(())
    }

    /// Returns what a signal that ends the process asks first.
    pub(super) fn haste(&self) -> Haste {
        self.haste.clone()
    }

    async fn asked(&mut self) -> PathBuf {
        let Some(file) = self.file.clone() else { return std::future::pending().await };
        #[cfg(unix)]
        {
            let [first, second] = &mut self.signals;
            tokio::select! {
                _ = first.recv() => {}
                _ = second.recv() => {}
            }
        }
        file
    }
}

/// Whether the session waits for the peer's answer to leave, and the wish that it no longer does. Whoever presses
/// Ctrl-C then wants the process to end, not the session to be lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Haste(Arc<Hurried>);

#[derive(Debug, Default)]
struct Hurried {
    waits: AtomicBool,
    asked: Notify,
}

impl Haste {
    /// Asks a session that waits to leave at once. Returns false if none waits.
    pub(super) fn ask(&self) -> bool {
        let waits = self.0.waits.load(Ordering::Acquire);
        if waits {
            self.0.asked.notify_one();
        }
        waits
    }

    /// Suspends the session, and says so if the peer does not answer soon.
    async fn suspend(&self, mocket: &Mocket, patience: Duration) -> Result<SuspendedMocket, SuspendError> {
        self.0.waits.store(true, Ordering::Release);
        let suspending = mocket.suspend(SuspendMode::Snapshot);
        tokio::pin!(suspending);
        let mut told = false;
        let left = loop {
            tokio::select! {
                left = &mut suspending => break left,
                () = self.0.asked.notified() => mocket.suspend_unanswered(),
                () = tokio::time::sleep(QUIET), if !told => {
                    told = true;
                    note(format_args!(
                        "suspending, waiting up to {} s for the peer; Ctrl-C suspends without its answer",
                        patience.as_secs()
                    ));
                }
            }
        };
        self.0.waits.store(false, Ordering::Release);
        left
    }
}

/// A session that has left, and its file.
pub(super) struct Left {
    pub(super) state: SuspendedMocket,
    file: PathBuf,
    since: Instant,
}

/// Runs the exchange to its end, or suspends the session when asked to. `patience` is how long the session then waits
/// for the peer.
pub(super) async fn leave_or(
    mocket: &Mocket,
    leaving: &mut Leaving,
    patience: Duration,
    exchange: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Option<Left>> {
    // The exchange pauses while the session leaves, and is dropped afterwards: data it was about to receive goes with
    // the session.
    tokio::pin!(exchange);
    loop {
        let file = tokio::select! {
            result = &mut exchange => return result.map(|()| None),
            file = leaving.asked() => file,
        };
        // The file is tried first, because a session that has left cannot be called back.
        if let Err(error) = Draft::begin(&file) {
            note(format_args!("not suspended, cannot write {}: {error}", file.display()));
            continue;
        }
        match leaving.haste.suspend(mocket, patience).await {
            Ok(state) => return Ok(Some(Left { state, file, since: Instant::now() })),
            Err(SuspendError::Refused(why)) => note(format_args!("not suspended: {}", refusal(&why))),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Why a session cannot leave now, and what the user can do about it.
fn refusal(why: &whimbrel_proto::SuspendError) -> String {
    match why {
        whimbrel_proto::SuspendError::NotEstablished => {
            "there is no connection yet. Send the signal again once the peer has answered".to_owned()
        }
        whimbrel_proto::SuspendError::Closing => {
            "the session is ending. Data that was sent is still delivered, and nothing is left to resume"
                .to_owned()
        }
        whimbrel_proto::SuspendError::NoSession => {
            "the peer runs a version that cannot resume sessions. Update it".to_owned()
        }
        other => other.to_string(),
    }
}

impl Left {
    pub(super) async fn write(&self, leaving: &Leaving) -> anyhow::Result<()> {
        let bytes = Zeroizing::new(match &leaving.passphrase {
            Some(passphrase) => self.state.seal(passphrase)?,
            None => self.state.to_bytes(),
        });
        write_in_the_end(&self.file, &bytes).await;
        note(format_args!(
            "suspended to {}; {}",
            self.file.display(),
            peer_waits(self.state.peer_waits(), self.since.elapsed())
        ));
        Ok(())
    }
}

/// How much longer the peer waits, `since` it was told.
fn peer_waits(told: Option<Duration>, since: Duration) -> String {
    match told.map(|told| told.saturating_sub(since)) {
        Some(Duration::ZERO) => "the peer no longer waits".to_owned(),
        Some(left) => format!("the peer waits for {} min", left.as_secs().div_ceil(60)),
        None => "the peer was out of reach".to_owned(),
    }
}

/// Writes the file, and repeats that until there is room: the session exists only in this process, and a full disk
/// must not lose it.
async fn write_in_the_end(file: &Path, bytes: &[u8]) {
    let mut told = String::new();
    while let Err(error) = Draft::begin(file).and_then(|draft| draft.finish(bytes)) {
        let error = error.to_string();
        if told != error {
            note(format_args!(
                "cannot write {}: {error}; the session waits in memory: make room, and it is written within a second. Ctrl-C gives it up",
                file.display()
            ));
            told = error;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Checks the folder at the start, so that a wrong place is not noticed only when leaving.
fn check_folder(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() || file.is_dir() {
        bail!("--suspend-to {}: name a file in a folder that is there", file.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peer_has_waited_it_waits_no_more() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let told = Some(minutes(60));
        assert_eq!(peer_waits(told, Duration::from_millis(5)), "the peer waits for 60 min");
        assert_eq!(peer_waits(told, minutes(50)), "the peer waits for 10 min");
        assert_eq!(peer_waits(told, minutes(90)), "the peer no longer waits");
        assert_eq!(peer_waits(None, minutes(1)), "the peer was out of reach");
    }
}
