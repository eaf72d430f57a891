//! A thread that reads standard input ahead and can be stopped without losing what it has read.

use std::io::{self, Read};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

/// The most bytes of one read.
const READ: usize = 1 << 16;

/// Reads standard input. Reading cannot be cancelled, so a thread does it and passes on chunks, one ahead.
pub(super) struct Reader {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    stop: stop::Asker,
    /// The thread. It returns what it had read and could not pass on.
    thread: JoinHandle<Vec<u8>>,
}

impl Reader {
    /// Starts to read standard input.
    ///
    /// # Errors
    /// The system provides no handle on it.
    pub(super) fn start() -> io::Result<Self> {
        let (send, chunks) = mpsc::channel(1);
        let (mut input, stop) = stop::input()?;
        let thread = std::thread::spawn(move || {
            loop {
                let chunk = match read(&mut input) {
                    Ok(None) => return Vec::new(),
                    Ok(Some(chunk)) => Ok(chunk),
                    Err(error) => Err(error),
                };
                let failed = chunk.is_err();
                if let Err(back) = send.blocking_send(chunk) {
                    return back.0.unwrap_or_default();
                }
                if failed {
                    return Vec::new();
                }
            }
        });
        Ok(Self { chunks, stop, thread })
    }

    /// Returns the next bytes, or `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        self.chunks.recv().await
    }

    /// Returns whether no chunk is waiting to be taken.
    pub(super) fn is_idle(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Stops reading and returns what was read and not taken. Later input is for another process.
    pub(super) fn stop(self) -> Vec<u8> {
        let Self { mut chunks, stop, thread } = self;
        chunks.close();
        drop(stop);
        let last = thread.join().unwrap_or_default();
        let mut rest = Vec::new();
        while let Ok(chunk) = chunks.try_recv() {
            rest.extend(chunk.unwrap_or_default());
        }
        rest.extend(last);
        rest
    }
}

/// Reads a chunk. Returns `None` if the input has ended or must be left alone.
fn read(input: &mut stop::Input) -> io::Result<Option<Vec<u8>>> {
    let mut chunk = vec![0; READ];
    let count = loop {
        match input.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    chunk.truncate(count);
    Ok((count > 0).then_some(chunk))
}

#[cfg(unix)]
mod stop {
    #![allow(unsafe_code, reason = "poll is a libc call")]

    use std::fs::File;
    use std::io::{self, PipeReader, PipeWriter, Read};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

    /// Ends the input when dropped.
    pub(super) type Asker = PipeWriter;

    /// Standard input itself, without the library's buffer.
    pub(super) struct Input {
        stdin: File,
        stop: PipeReader,
    }

    pub(super) fn input() -> io::Result<(Input, Asker)> {
        let (stop, asker) = io::pipe()?;
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok((Input { stdin, stop }, asker))
    }

    impl Read for Input {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if is_stopped(self.stdin.as_fd(), self.stop.as_fd())? { Ok(0) } else { self.stdin.read(into) }
        }
    }

    /// Waits until there is something to read, or reading must stop. Returns whether it must stop.
    fn is_stopped(stdin: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let mut both =
            [stdin, stop].map(|file| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // SAFETY: this is an array of two.
        let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
        if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(both[1].revents != 0) }
    }
}

/// On this system no session can leave a process, so nothing needs to be stopped.
#[cfg(not(unix))]
mod stop {
    use std::io;

    pub(super) type Asker = ();
    pub(super) type Input = io::Stdin;

    pub(super) fn input() -> io::Result<(Input, Asker)> {
        Ok((io::stdin(), ()))
    }
}
