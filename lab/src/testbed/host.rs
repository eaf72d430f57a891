//! A host: a thread in a network namespace of its own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, bail};

use super::{leftover, sys};

/// Settings of every host, below `/proc/sys/net`.
const SETTINGS: &[(&str, &str)] = &[
    // A trial must not learn from the one before it.
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_rmem", "4096 131072 16777216"),
    ("ipv4/tcp_wmem", "4096 65536 16777216"),
    // The two directions of a connection may use different interfaces.
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    // Removing an address must not remove the others beside it.
    ("ipv4/conf/all/promote_secondaries", "1"),
    // Addresses are usable at once, and the kernel sends nothing of its own accord.
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/dad_transmits", "0"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/all/keep_addr_on_down", "1"),
];
/// Further settings, if the kernel has them.
const OPTIONAL: &[(&str, &str)] = &[("mptcp/enabled", "1")];

/// A thread in a network namespace, which is mostly its own and has no name. The namespace goes with the thread, the
/// processes started from it, and the devices made in it. When the thread ends, those processes are killed.
pub(super) struct Host {
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

type Work = Box<dyn FnOnce() + Send>;

impl Host {
    /// Creates a host with a loopback device and nothing else.
    pub(super) fn new(name: &str) -> anyhow::Result<Self> {
        Self::entering(name, || sys::leave_network().context("cannot create a network namespace"))
    }

    /// Creates a host in an existing network namespace.
    pub(super) fn of_namespace(name: &str, namespace: File) -> anyhow::Result<Self> {
        Self::entering(name, move || sys::join_network(&namespace).context("cannot join a network namespace"))
    }

    /// Creates a host whose thread enters its namespace by `enter`.
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

    /// Runs a closure on the host's thread, and so in its namespace.
    pub(super) fn within<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> anyhow::Result<R> {
        let (answer, answered) = mpsc::channel();
        let sender = self.work.as_ref().context("the host is gone")?;
        let work = Box::new(move || drop(answer.send(work())));
        sender.send(work).ok().context("the host's thread is gone")?;
        answered.recv().context("the host's thread has failed")
    }

    /// Runs `ip` on several lines of arguments, for example `link set w0 down`.
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
            // A panic was printed where it happened.
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
        // If the kernel lacks it, a peer that needs it will say so.
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
