//! The process itself: its runtime, and when it ends.

use std::future::Future;
use std::time::Duration;

use clap::{Args, ValueEnum};
use whimbrel::Endpoint;

/// The runtime that everything runs on.
#[derive(Args, Clone, Copy, Debug)]
pub struct RuntimeOptions {
    /// The threads of the runtime: one, or two that share the work [default: multi, or current where the process may
    /// use only one core].
    #[arg(long, value_enum)]
    pub runtime: Option<Flavour>,
}

/// A flavour of runtime.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Everything on one thread.
    Current,
    /// Two worker threads.
    Multi,
}

impl Flavour {
    /// One thread where there is one core. Two that take turns on it cost an eighth of the throughput of `perf`.
    fn fitting() -> Self {
        match std::thread::available_parallelism() {
            Ok(cores) if cores.get() == 1 => Self::Current,
            _ => Self::Multi,
        }
    }
}

impl RuntimeOptions {
    /// Runs a future to its end.
    ///
    /// # Errors
    /// The future failed, or the system is out of threads.
    pub fn block_on<T>(self, future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let mut builder = match self.runtime.unwrap_or_else(Flavour::fitting) {
            Flavour::Current => tokio::runtime::Builder::new_current_thread(),
            Flavour::Multi => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(2).enable_all().build()?;
        let result = runtime.block_on(future);
        // A thread that waits for standard input cannot be stopped.
        runtime.shutdown_background();
        result
    }
}

/// Ctrl-C was pressed, or SIGTERM arrived.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    signal: u8,
}

impl Interrupted {
    const INTERRUPT: Self = Self { signal: 2 };
    pub(crate) const TERMINATE: Self = Self { signal: 15 };

    /// The exit code that shells use, 128 plus the signal's number: 130 for Ctrl-C, 143 for SIGTERM.
    pub fn exit_code(self) -> u8 {
        128 + self.signal
    }
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// The command line asks for something impossible; the text says what to write instead. The program then ends with 2,
/// as for an unknown option.
#[derive(Debug)]
pub struct Misused(pub String);

impl std::fmt::Display for Misused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}

/// A stream of Ctrl-C and SIGTERM signals.
pub struct Interrupts {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Interrupts {
    /// Listens for the signals from now on.
    ///
    /// # Errors
    /// The system does not report signals.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signals: {
                use tokio::signal::unix::{SignalKind, signal};
                [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]
            },
        })
    }

    /// Waits for the next signal and returns it.
    pub async fn next(&mut self) -> Interrupted {
        #[cfg(unix)]
        {
            let [interrupt, terminate] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => Interrupted::INTERRUPT,
                _ = terminate.recv() => Interrupted::TERMINATE,
            }
        }
        // Where signals cannot be received, the system ends the process.
        #[cfg(not(unix))]
        {
            drop(tokio::signal::ctrl_c().await);
            Interrupted::INTERRUPT
        }
    }
}

/// Listens for Ctrl-C and SIGTERM from now on; the returned future waits for one.
///
/// # Errors
/// The system does not report signals.
pub fn interrupted() -> std::io::Result<impl Future<Output = Interrupted>> {
    let mut interrupts = Interrupts::listen()?;
    Ok(async move { interrupts.next().await })
}

/// How long to wait for an abort to reach the peers.
const FAREWELL: Duration = Duration::from_millis(300);

/// Aborts every connection and waits a moment for the peers to be told.
pub async fn abort_all(endpoint: &Endpoint, text: &str) {
    abort_all_with(endpoint, 0, text).await;
}

/// Works like [`abort_all`], with a code for the peers' programs.
pub(crate) async fn abort_all_with(endpoint: &Endpoint, code: u64, text: &str) {
    endpoint.abort_all(code, text);
    // Peers that are not told find out by themselves.
    drop(tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await);
}
