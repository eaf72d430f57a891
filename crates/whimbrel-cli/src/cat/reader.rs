//! A thread that reads standard input ahead, and can be stopped without losing what it has read.

use std::io::{self, Read};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

/// What one read takes at most.
const READ: usize = 1 << 16;

/// Reading cannot be cancelled, so it is done on a thread; what has come is handed over in chunks, one ahead.
pub(super) struct Reader {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    stop: stop::Asker,
    /// Gives what it had read and could not hand over.
    thread: JoinHandle<Vec<u8>>,
}

impl Reader {
    /// Begins to read standard input.
    ///
    /// # Errors
    /// The system gives no handle on it.
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

    /// The next bytes; None at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        self.chunks.recv().await
    }

    /// Nothing has come that was not taken.
    pub(super) fn is_idle(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Reads no more, and gives what was read and not taken: what comes later is for another process.
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

/// None: the input has ended, or is to be left alone.
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

    /// Dropped, the input ends.
    pub(super) type Asker = PipeWriter;

    /// Standard input itself, not what the library buffers of it.
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

    /// Waits until there is something to read, or it is not to be read any more.
    fn is_stopped(stdin: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let mut both =
            [stdin, stop].map(|file| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // SAFETY: an array of two.
        let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
        if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(both[1].revents != 0) }
    }
}

/// No session leaves a process here, so that nothing has to be stopped.
#[cfg(not(unix))]
mod stop {
    use std::io;

    pub(super) type Asker = ();
    pub(super) type Input = io::Stdin;

    pub(super) fn input() -> io::Result<(Input, Asker)> {
        Ok((io::stdin(), ()))
    }
}
