//! Signals that ask the process to end, or to read its configuration again.

use std::io;

/// A signal asked the process to end: SIGINT, as sent by Ctrl-C, or SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted {
    signal: u8,
}

impl Interrupted {
    /// SIGINT.
    pub const INTERRUPT: Self = Self { signal: 2 };
    /// SIGTERM.
    pub const TERMINATE: Self = Self { signal: 15 };

    /// Returns the exit code that shells use, 128 plus the signal's number: 130 for SIGINT, 143 for SIGTERM.
    pub fn exit_code(self) -> u8 {
        128 + self.signal
    }
}

/// The signals that ask the process to end, one after another. While it listens, they no longer end the process by
/// themselves.
#[derive(Debug)]
pub struct Interrupts {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Interrupts {
    /// Listens for the signals from now on.
    ///
    /// # Errors
    /// The system does not report signals.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signals: {
                use tokio::signal::unix::{SignalKind, signal};
                [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]
            },
        })
    }

    /// Waits for the next signal and returns it. Cancel-safe.
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

/// Listens for SIGINT and SIGTERM from now on; the returned future waits for one.
///
/// # Errors
/// The system does not report signals.
pub fn interrupted() -> io::Result<impl Future<Output = Interrupted>> {
    let mut interrupts = Interrupts::listen()?;
    Ok(async move { interrupts.next().await })
}

/// SIGHUP, if it is listened for. Otherwise it ends the process.
pub(crate) struct Hangups {
    #[cfg(unix)]
    signals: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    /// Listens for the signal from now on, if it is `wanted`.
    pub(crate) fn listen(wanted: bool) -> io::Result<Self> {
        #[cfg(not(unix))]
        let _ = wanted;
        Ok(Self {
            #[cfg(unix)]
            signals: match wanted {
                true => Some(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?),
                false => None,
            },
        })
    }

    /// Waits for the next one, for ever if it is not listened for. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signals) = &mut self.signals
            && signals.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
