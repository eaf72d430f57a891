//! The nft table that intercepts. The kernel takes it away with the process that made it: an `nft` that ends with us, since
//! its input is a pipe from us. Another process of ours can take over the pipes, and the table stays.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::error::TproxyError;
use super::ruleset::{LAST_CHAIN, Ruleset};
use crate::intercept::kernel::{KernelError, Tool, first_line};

/// How long nft may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The table. Dropping it takes it away, unless another process has it.
#[derive(Debug)]
pub(super) struct Table {
    name: String,
    /// `nft`, if this process has started it.
    child: Option<Child>,
    stdin: Option<File>,
    stdout: File,
    stderr: File,
    /// Becomes readable when `nft` has ended.
    process: OwnedFd,
    is_ours: bool,
}

/// Notices the end of `nft`, and so of the table.
#[derive(Debug)]
pub(super) struct Gone(AsyncFd<OwnedFd>);

impl Table {
    /// Makes it.
    pub(super) fn create(ruleset: &Ruleset) -> Result<Self, TproxyError> {
        let failed = TproxyError::system("starting nft failed");
        let mut child = Tool::Nft.start(&["-i"])?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let process = process.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take(), process);
        let (Some(stdin), Some(stdout), Some(stderr), Some(Ok(process))) = pipes else {
            child.kill().ok();
            child.wait().ok();
            return Err(failed(io::ErrorKind::Unsupported.into()));
        };
        let files = [stdin.into(), stdout.into(), stderr.into(), process];
        let mut table = Self::of(ruleset.names.table(), files);
        (table.child, table.is_ours) = (Some(child), true);
        table.run(&ruleset.intercepting())?;
        Ok(table)
    }

    /// A table that another process has made. It stays there until [`Table::own`].
    pub(super) fn of(name: String, [stdin, stdout, stderr, process]: [OwnedFd; 4]) -> Self {
        let (stdin, stdout, stderr) = (Some(stdin.into()), stdout.into(), stderr.into());
        Self { name, child: None, stdin, stdout, stderr, process, is_ours: false }
    }

    /// Returns what another process needs to have the table.
    pub(super) fn files(&self) -> io::Result<[OwnedFd; 4]> {
        let stdin = self.stdin.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let again = |file: BorrowedFd<'_>| file.try_clone_to_owned();
        Ok([
            again(stdin.as_fd())?,
            again(self.stdout.as_fd())?,
            again(self.stderr.as_fd())?,
            again(self.process.as_fd())?,
        ])
    }

    /// Sets whether the table goes with this process.
    pub(super) fn own(&mut self, is_ours: bool) {
        self.is_ours = is_ours;
    }

    /// Puts these rules in place of those that are there, all at once.
    pub(super) fn change(&mut self, ruleset: &Ruleset) -> Result<(), TproxyError> {
        self.run(&ruleset.changing())
    }

    /// Notices its end.
    pub(super) fn gone(&self) -> io::Result<Gone> {
        let process = self.process.try_clone()?;
        #[allow(unsafe_code, reason = "the runtime cannot know whether a descriptor stays open")]
        // SAFETY: the descriptor is owned, and never changes or is closed before it is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) };
        Ok(Gone(registered.map_err(|error| error.into_parts().1)?))
    }

    /// Has nft take a line, and waits until it has.
    fn run(&mut self, line: &str) -> Result<(), TproxyError> {
        let failed = TproxyError::system("writing to nft failed");
        let input = format!("{line}\nlist chain inet {} {LAST_CHAIN}\n", self.name);
        let stdin = self.stdin.as_mut().ok_or_else(|| failed(io::ErrorKind::NotConnected.into()))?;
        stdin.write_all(input.as_bytes()).map_err(&failed)?;
        let (deadline, mut said, mut errors) = (Instant::now() + PATIENCE, Vec::new(), Vec::new());
        loop {
            if let Some(line) = refusal(&errors) {
                // What follows belongs to it.
                return Err(explained(&self.name, &line).into());
            }
            if is_whole(&said) {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // Errors first: nft says them before it lists anything.
            let ready = wait([self.stderr.as_fd(), self.stdout.as_fd()], left).map_err(&failed)?;
            let read = match ready {
                [true, _] => read(&mut self.stderr, &mut errors),
                [_, true] => read(&mut self.stdout, &mut said),
                _ => return Err(explained(&self.name, "nft gives no answer").into()),
            };
            if read.map_err(&failed)? == 0 {
                return Err(explained(&self.name, "nft has ended").into());
            }
        }
    }
}

impl Gone {
    /// Waits for it.
    pub(super) async fn wait(&self) {
        // An error would say the same for ever.
        drop(self.0.readable().await);
    }
}

/// The line that says why nft has not taken something, once all of it is there: nft writes it in pieces.
fn refusal(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    let mut lines = said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.find(|line| line.contains("Error:") || line.contains("not permitted")).map(str::to_owned)
}

/// Whether nft has shown the chain whose presence says that a line was taken.
fn is_whole(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said);
    said.lines().any(|line| line.contains(LAST_CHAIN) && line.contains("chain"))
}

/// Waits until one of these can be read, or has ended.
fn wait(files: [BorrowedFd<'_>; 2], patience: Duration) -> io::Result<[bool; 2]> {
    let mut polled = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
    let patience = Timespec::try_from(patience).ok();
    loop {
        match poll(&mut polled, patience.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok([0, 1].map(|at: usize| !polled[at].revents().is_empty())),
        }
    }
}

fn read(from: &mut File, all: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 4_096];
    let length = from.read(&mut buffer)?;
    all.extend_from_slice(&buffer[..length]);
    Ok(length)
}

/// Returns the message of nft, with what to do about it.
fn explained(name: &str, why: &str) -> KernelError {
    let advice = match why {
        why if why.contains("not permitted") => return KernelError::NoRights,
        why if why.contains("File exists") => {
            "; another program has a table of that name, so delete or rename that one"
        }
        why if why.contains("No such file") => {
            "; the kernel needs nft_tproxy, nft_socket, nft_fib_inet and nf_conntrack"
        }
        _ => "",
    };
    let what = format!("nft create table inet {name}");
    KernelError::Failed { what, why: first_line(why) + advice }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        // nft ends with its input.
        drop(self.stdin.take());
        match &mut self.child {
            Some(child) => drop(child.wait()),
            // Its end is nobody's to wait for but that of the process which takes in orphans.
            None => drop(wait([self.process.as_fd(), self.process.as_fd()], PATIENCE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn an_error_that_nft_writes_in_pieces_is_read_whole() {
        assert_eq!(refusal(b"Error: "), None);
        assert_eq!(refusal(b"Error: Could not process rule: File exis"), None);
        let said = b"a warning\nError: Could not process rule: File exists\ncreate table inet";
        assert_eq!(refusal(said).as_deref(), Some("Error: Could not process rule: File exists"));
    }
}
