//! A thread that writes standard output: an output that nobody reads holds back neither signals nor the session.

use std::io::{self, Write};

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::out::Out;
use crate::output::output_error;

/// Bytes that wait for the thread at the most; then nothing more is taken from the peer.
const ROOM: usize = 1 << 18;

/// Writing cannot be cancelled, so it is done on a thread. One part is being written, one waits for the thread, and one is gathered here.
pub(super) struct Writer {
    out: Out,
    gathered: Vec<u8>,
    /// None: all was said.
    parts: Option<mpsc::Sender<Vec<u8>>>,
    /// None: its result was given.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Writer {
    /// Starts the thread that writes standard output. It needs a tokio runtime.
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

    /// More may be given.
    pub(super) fn has_room(&self) -> bool {
        self.gathered.len() < ROOM
    }

    /// Takes what came from the peer; what of it is begun is shown with the next.
    ///
    /// # Errors
    /// None: memory takes all.
    pub(super) fn give(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write(&mut self.gathered, bytes)
    }

    /// Ends a line.
    ///
    /// # Errors
    /// None: memory takes all.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        self.out.end(&mut self.gathered)?;
        self.gathered.push(b'\n');
        Ok(())
    }

    /// Hands what was gathered to the thread as soon as that has time; with nothing to hand over, waits until writing fails. Cancel-safe.
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

    /// Waits until all is written. Cancel-safe, and the second time it has nothing to do.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        if let (Some(parts), false) = (&self.parts, self.gathered.is_empty()) {
            // The thread says itself why it takes no more.
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
