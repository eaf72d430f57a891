//! What the process itself is asked for: a runtime, and when to end.

use std::future::Future;
use std::time::Duration;

use clap::{Args, ValueEnum};
use whimbrel::Endpoint;

/// The runtime everything runs on.
#[derive(Args, Clone, Copy, Debug)]
pub struct RuntimeOptions {
    /// The threads of the runtime: one, or two that share the work.
    #[arg(long, value_enum, default_value_t = Flavour::Multi)]
    pub runtime: Flavour,
}

/// A flavour of runtime.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Everything on one thread.
    Current,
    /// Two worker threads.
    Multi,
}

impl RuntimeOptions {
    /// Runs a future to its end.
    ///
    /// # Errors
    /// The future's, or the system gives no threads.
    pub fn block_on<T>(self, future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let mut builder = match self.runtime {
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

/// Somebody pressed Ctrl-C or sent SIGTERM.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    signal: u8,
}

impl Interrupted {
    const INTERRUPT: Self = Self { signal: 2 };
    #[cfg(unix)]
    const TERMINATE: Self = Self { signal: 15 };

    /// As shells have it, 128 and the number of the signal: 130 for Ctrl-C, 143 for SIGTERM.
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

/// The command line asks for what cannot be; says what to write. The program ends with 2 then, as where an option is not known.
#[derive(Debug)]
pub struct Misused(pub String);

impl std::fmt::Display for Misused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}

/// Ctrl-C and SIGTERM, one after another.
pub struct Interrupts {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Interrupts {
    /// Listens for them from now on.
    ///
    /// # Errors
    /// The system does not tell of signals.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signals: {
                use tokio::signal::unix::{SignalKind, signal};
                [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]
            },
        })
    }

    /// Waits for the next, and says which it is.
    pub async fn next(&mut self) -> Interrupted {
        #[cfg(unix)]
        {
            let [interrupt, terminate] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => Interrupted::INTERRUPT,
                _ = terminate.recv() => Interrupted::TERMINATE,
            }
        }
        // Where signals cannot be heard, the system ends the process.
        #[cfg(not(unix))]
        {
            drop(tokio::signal::ctrl_c().await);
            Interrupted::INTERRUPT
        }
    }
}

/// Listens for Ctrl-C and SIGTERM from now on; the future waits for one.
///
/// # Errors
/// The system does not tell of signals.
pub fn interrupted() -> std::io::Result<impl Future<Output = Interrupted>> {
    let mut interrupts = Interrupts::listen()?;
    Ok(async move { interrupts.next().await })
}

/// How long peers are given to hear of an abort.
const FAREWELL: Duration = Duration::from_millis(300);

/// Aborts every connection and gives the peers a moment to hear of it.
pub async fn abort_all(endpoint: &Endpoint, text: &str) {
    abort_all_with(endpoint, 0, text).await;
}

/// As [`abort_all`], with a code for the peers' programs.
pub(crate) async fn abort_all_with(endpoint: &Endpoint, code: u64, text: &str) {
    endpoint.abort_all(code, text);
    // Peers that do not hear of it notice by themselves.
    drop(tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await);
}
