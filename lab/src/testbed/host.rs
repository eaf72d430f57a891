//! A host: a thread in a network namespace of its own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, bail};

use super::{leftover, sys};

/// What holds in every host, below `/proc/sys/net`.
const SETTINGS: &[(&str, &str)] = &[
    // A trial must not learn from the one before.
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_rmem", "4096 131072 16777216"),
    ("ipv4/tcp_wmem", "4096 65536 16777216"),
    // Two interfaces may see the two halves of one connection.
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    // An address that goes leaves those beside it.
    ("ipv4/conf/all/promote_secondaries", "1"),
    // Addresses are good at once, and the kernel sends nothing of its own.
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/dad_transmits", "0"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/all/keep_addr_on_down", "1"),
];
/// As [`SETTINGS`], where the kernel has them.
const OPTIONAL: &[(&str, &str)] = &[("mptcp/enabled", "1")];

/// A thread that lives in a network namespace, mostly of its own and without a name. The namespace is gone when the thread, the processes it has
/// started and the devices made there are; the processes are killed when the thread ends.
pub(super) struct Host {
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

type Work = Box<dyn FnOnce() + Send>;

impl Host {
    /// A host with a loopback device and nothing else.
    pub(super) fn new(name: &str) -> anyhow::Result<Self> {
        Self::entering(name, || sys::leave_network().context("no network namespace of its own"))
    }

    /// A host in a network namespace that there is already, with what is in that.
    pub(super) fn of_namespace(name: &str, namespace: File) -> anyhow::Result<Self> {
        Self::entering(name, move || sys::join_network(&namespace).context("cannot join a network namespace"))
    }

    /// A host whose thread finds its namespace so.
    fn entering(
        name: &str,
        enter: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (work, todo) = mpsc::channel::<Work>();
        let thread = thread::Builder::new()
            .name(format!("lab-{name}"))
            .spawn(move || todo.into_iter().for_each(|work| work()))?;
        let host = Self { work: Some(work), thread: Some(thread) };
        host.within(move || enter().and_then(|()| settle()))??;
        Ok(host)
    }

    /// Does something on the host's thread, that is, in its namespace.
    pub(super) fn within<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> anyhow::Result<R> {
        let (answer, answered) = mpsc::channel();
        let sender = self.work.as_ref().context("the host has gone")?;
        let work = Box::new(move || drop(answer.send(work())));
        sender.send(work).ok().context("the host's thread has gone")?;
        answered.recv().context("the host's thread has failed")
    }

    /// Runs `ip` with one line of arguments after the other, for example `link set w0 down`.
    pub(super) fn ip(&self, lines: &str) -> anyhow::Result<()> {
        let lines = lines.to_owned();
        self.within(move || ip(&lines))?
    }

    /// Starts a process that ends with this host. Its standard input is a pipe.
    pub(super) fn spawn(
        &self,
        program: &str,
        arguments: &[String],
        output: Stdio,
    ) -> anyhow::Result<tokio::process::Child> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(output);
        prepare(&mut command);
        let runtime = tokio::runtime::Handle::current();
        let spawned = self.within(move || {
            let _entered = runtime.enter();
            tokio::process::Command::from(command).kill_on_drop(true).spawn()
        })?;
        spawned.with_context(|| format!("cannot start {program}"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been printed where it happened.
            drop(thread.join());
        }
    }
}

fn prepare(command: &mut Command) {
    let parent = std::process::id();
    command.env(leftover::MARK, leftover::mark());
    sys::before_exec(command, move || sys::die_with(parent));
}

fn settle() -> anyhow::Result<()> {
    for (name, value) in SETTINGS {
        fs::write(format!("/proc/sys/net/{name}"), value)
            .with_context(|| format!("cannot set {name} to {value}"))?;
    }
    for (name, value) in OPTIONAL {
        // A kernel without it: whoever needs it will say so.
        drop(fs::write(format!("/proc/sys/net/{name}"), value));
    }
    ip("link set lo up")
}

fn ip(lines: &str) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().context("cannot start `ip`: install iproute2")?;
    let input = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`ip {}`: {}", lines.trim(), String::from_utf8_lossy(&output.stderr).trim());
    }
    input.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    Ok(())
}
