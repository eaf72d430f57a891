//! The process itself: its runtime, and when it ends.

use std::future::Future;
use std::time::Duration;

use clap::{Args, ValueEnum};
use whimbrel::Endpoint;
pub use whimbrel_service::{Interrupted, Interrupts, interrupted};

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

/// How long a command that was stopped may take to end its sessions gracefully. A second signal ends it at once.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(5);
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
