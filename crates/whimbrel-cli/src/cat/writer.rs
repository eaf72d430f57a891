//! A thread that writes standard output, so that an output that nobody reads blocks neither signals nor the session.

use std::io::{self, Write};

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::out::Out;
use crate::output::output_error;

/// The most bytes that wait for the thread; beyond it nothing more is taken from the peer.
const ROOM: usize = 1 << 18;

/// Writes standard output. Writing cannot be cancelled, so a thread does it. One part is being written, one waits for
/// the thread, and one is gathered here.
pub(super) struct Writer {
    out: Out,
    gathered: Vec<u8>,
    /// The channel to the thread; `None` once everything was passed on.
    parts: Option<mpsc::Sender<Vec<u8>>>,
    /// The thread; `None` once its result was returned.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Writer {
    /// Starts the thread that writes standard output. It requires a tokio runtime.
    pub(super) fn start() -> Self {
        let (parts, mut given) = mpsc::channel::<Vec<u8>>(1);
        let thread = spawn_blocking(move || {
            while let Some(part) = given.blocking_recv() {
                let mut out = io::stdout().lock();
                out.write_all(&part).and_then(|()| out.flush())?;
            }
            Ok(())
        });
        Self { out: Out::standard(), gathered: Vec::new(), parts: Some(parts), thread: Some(thread) }
    }

    /// Returns whether more may be given.
    pub(super) fn has_room(&self) -> bool {
        self.gathered.len() < ROOM
    }

    /// Gathers bytes from the peer. An incomplete character at their end is shown with the next bytes.
    ///
    /// # Errors
    /// None: memory accepts everything.
    pub(super) fn give(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write(&mut self.gathered, bytes)
    }

    /// Ends a line.
    ///
    /// # Errors
    /// None: memory accepts everything.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        self.out.end(&mut self.gathered)?;
        self.gathered.push(b'\n');
        Ok(())
    }

    /// Passes the gathered bytes to the thread as soon as it is ready. Without any, it waits until writing fails.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) async fn hand_over(&mut self) -> anyhow::Result<()> {
        let Some(parts) = &self.parts else { return self.finish().await };
        if self.gathered.is_empty() {
            parts.closed().await;
        } else if let Ok(place) = parts.reserve().await {
            place.send(std::mem::take(&mut self.gathered));
            return Ok(());
        }
        self.finish().await
    }

    /// Waits until everything is written. Cancel-safe; a second call has nothing to do.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        if let (Some(parts), false) = (&self.parts, self.gathered.is_empty()) {
            // The thread itself reports why it accepts no more.
            if let Ok(place) = parts.reserve().await {
                place.send(std::mem::take(&mut self.gathered));
            }
        }
        self.parts = None;
        let Some(thread) = &mut self.thread else { return Ok(()) };
        let written = thread.await;
        self.thread = None;
        written?.map_err(output_error)
    }
}
