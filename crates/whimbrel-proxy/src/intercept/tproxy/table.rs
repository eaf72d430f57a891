//! The nft table that intercepts. The kernel takes it away with the process that made it: a child that ends with us,
//! since its input is a pipe from us.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::error::TproxyError;
use super::ruleset::{LAST_CHAIN, Ruleset};
use crate::intercept::kernel::{KernelError, Program, first_line};

/// How long nft may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The table. Dropping it takes it away.
#[derive(Debug)]
pub(super) struct Table {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Ends when the child ends, and so the table.
    gone: Option<oneshot::Receiver<()>>,
}

impl Table {
    /// Makes it.
    pub(super) fn create(ruleset: &Ruleset) -> Result<Self, TproxyError> {
        let mut child = Program::Nft.start(&["-i"])?;
        let (tell_said, said) = mpsc::channel();
        let (tell_gone, gone) = oneshot::channel();
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            let tell = tell_said.clone();
            thread::spawn(move || {
                read(out, &tell);
                drop(tell_gone);
            });
            thread::spawn(move || read(err, &tell_said));
        }
        let stdin = child.stdin.take();
        let mut table = Self { child, stdin, gone: Some(gone) };
        let (name, whole) = (ruleset.names.table(), ruleset.intercepting());
        let input = format!("{whole}\nlist chain inet {name} {LAST_CHAIN}\n");
        if let Some(stdin) = &mut table.stdin {
            stdin.write_all(input.as_bytes()).map_err(TproxyError::system("writing to nft failed"))?;
        }
        let failed = |why: &str| failed(&name, why);
        loop {
            match said.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("Error:") || line.contains("not permitted") => {
                    return Err(failed(&line).into());
                }
                Ok(line) if line.contains(LAST_CHAIN) && line.contains("chain") => return Ok(table),
                Ok(_) => {}
                Err(_) => return Err(failed("nft gives no answer").into()),
            }
        }
    }

    /// Waits until it is gone although nobody dropped it: somebody has ended the child.
    pub(super) fn gone(&mut self) -> Option<oneshot::Receiver<()>> {
        self.gone.take()
    }
}

/// What nft says, with what to do about it.
fn failed(name: &str, why: &str) -> KernelError {
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
        // The child ends with its input.
        drop(self.stdin.take());
        self.child.wait().ok();
    }
}

/// Reads lines to the end.
fn read(from: impl Read, tell: &mpsc::Sender<String>) {
    for line in BufReader::new(from).lines() {
        let Ok(line) = line else { break };
        // Once the table is there, nobody listens.
        tell.send(line).ok();
    }
}
