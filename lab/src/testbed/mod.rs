//! Two hosts and the links between them.
//!
//! A host is a network namespace without a name. A thread of this process lives in it and starts processes there. A
//! link is one TUN device in each of two hosts, and a thread between them that puts every IP packet through the link
//! model of `whimbrel-link`. All of it belongs to this process, so nothing is left however the process ends.

mod host;
mod ip;
pub(crate) mod lateness;
mod leftover;
pub(crate) mod probe;
pub(crate) mod rattan;
mod sys;
mod wire;

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::sync::PoisonError;

use anyhow::Context;
use whimbrel_link::{LinkConfig, LinkStats};

use host::Host;
use lateness::{Lateness, Ledger};
use rattan::Rattan;
use wire::Wire;

pub(crate) use leftover::{MARK, mark};
pub(crate) use sys::monotonic;

/// Two hosts, and one or more links between them.
pub(crate) struct Testbed {
    // Fields drop in this order: first the links, then the hosts with their processes.
    wires: Vec<Wire>,
    caller: Host,
    server: Host,
    /// Emulator that joins the hosts in place of wires.
    rattan: Option<Rattan>,
    ledger: Option<Ledger>,
}

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The host that connects. Its interfaces are `w0` with address 10.77.0.1, `w1` with 10.77.1.1, and so on.
    /// Interface N also has the IPv6 address fd77:0:0:N::1.
    Caller,
    /// The host that is connected to, with addresses 10.77.0.2, 10.77.1.2, and so on.
    Server,
}

/// Settings of a link between the two hosts, in both directions.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    /// Settings from caller to server.
    pub(crate) up: LinkConfig,
    /// Settings from server to caller.
    pub(crate) down: LinkConfig,
}

/// Statistics of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkReport {
    /// Statistics from caller to server.
    pub(crate) up: LinkStats,
    /// Statistics from server to caller.
    pub(crate) down: LinkStats,
    /// Lateness of packets, compared with the model.
    pub(crate) late: Lateness,
}

impl Testbed {
    /// Creates the hosts and their links. `seed` decides the fate of packets. For each link, the clock of its outages
    /// and rates starts with the first packet on it.
    pub(crate) fn new(links: &[LinkPlan], seed: u64) -> anyhow::Result<Self> {
        let mut testbed = Self {
            wires: Vec::with_capacity(links.len()),
            caller: Host::new("caller")?,
            server: Host::new("server")?,
            rattan: None,
            ledger: lateness::ledger(),
        };
        for (index, plan) in links.iter().enumerate() {
            let ends = [testbed.plug(Side::Caller, index)?, testbed.plug(Side::Server, index)?];
            testbed.wires.push(Wire::new(ends, plan, seed.wrapping_add(index as u64 * 0x9e37_79b9))?);
        }
        if links.len() > 1 {
            testbed.join_links(links.len())?;
        }
        Ok(testbed)
    }

    /// Like [`Testbed::new`] with one link, made by another emulator. Processes on the hosts see no difference. The
    /// link cannot be changed while it runs, and reports nothing. Call it within a tokio runtime.
    pub(crate) async fn by_rattan(plan: &LinkPlan, seed: u64) -> anyhow::Result<Self> {
        let rattan = Rattan::start(plan, seed).await?;
        let (caller, server) = (rattan.host(Side::Caller)?, rattan.host(Side::Server)?);
        Ok(Self { wires: Vec::new(), caller, server, rattan: Some(rattan), ledger: None })
    }

    /// Returns the addresses of a host, link by link.
    pub(crate) fn addresses(&self, side: Side) -> Vec<IpAddr> {
        let links = self.wires.len() + usize::from(self.rattan.is_some());
        (0..links).map(|link| side.address(link)).collect()
    }

    /// Starts a process on a host, with a pipe to its standard input. It is killed when the testbed is dropped, and
    /// when this process dies. Call it within a tokio runtime.
    pub(crate) fn spawn(
        &self,
        side: Side,
        program: &str,
        arguments: &[String],
        output: Stdio,
    ) -> anyhow::Result<tokio::process::Child> {
        self.host(side).spawn(program, arguments, output)
    }

    /// Takes down a host's interface. It then sends and receives nothing, and its routes are gone.
    pub(crate) fn link_down(&self, side: Side, link: usize) -> anyhow::Result<()> {
        self.host(side).ip(&format!("link set w{link} down"))
    }

    /// Brings the interface up again, with the addresses and routes that it had.
    pub(crate) fn link_up(&self, side: Side, link: usize) -> anyhow::Result<()> {
        self.host(side).ip(&format!("link set w{link} up"))?;
        if side == Side::Caller && self.wires.len() > 1 { self.caller.ip(&routes(link)) } else { Ok(()) }
    }

    /// Joins the hosts by a pair of devices of the kernel, beside any link and faster. Returns the server's address there.
    pub(crate) fn veth(&self) -> anyhow::Result<IpAddr> {
        let server = self.server.within(sys::thread)?;
        self.caller.ip(&format!("link add v0 type veth peer name v0 netns {server}"))?;
        for side in [Side::Caller, Side::Server] {
            let last = side.last();
            self.host(side).ip(&format!("address add 10.78.0.{last}/24 dev v0\nlink set v0 up"))?;
        }
        Ok(Ipv4Addr::new(10, 78, 0, Side::Server.last()).into())
    }

    /// Changes a host's network by lines of arguments to `ip`, for example `link set w0 down`.
    pub(crate) fn ip(&self, side: Side, lines: &str) -> anyhow::Result<()> {
        self.host(side).ip(lines)
    }

    /// Changes the settings of a running link.
    pub(crate) fn reconfigure(&self, link: usize, plan: LinkPlan) {
        self.wires[link].reconfigure(plan);
    }

    /// Returns the statistics of a link so far.
    pub(crate) fn report(&self, link: usize) -> LinkReport {
        self.wires[link].report()
    }

    fn host(&self, side: Side) -> &Host {
        match side {
            Side::Caller => &self.caller,
            Side::Server => &self.server,
        }
    }

    /// Creates a host's end of a link.
    fn plug(&self, side: Side, link: usize) -> anyhow::Result<File> {
        let host = self.host(side);
        let name = format!("w{link}");
        let end = host.within(move || sys::tun(&name))?.with_context(|| format!("no TUN device w{link}"))?;
        let last = side.last();
        host.ip(&format!(
            // The device's own queue is so long that only that of the model matters.
            "link set w{link} mtu 1500 txqueuelen 10000 multicast off
             address add 10.77.{link}.{last}/24 dev w{link}
             address add fd77:0:0:{link}::{last}/64 dev w{link} nodad
             link set w{link} up"
        ))?;
        Ok(end)
    }

    /// Lets a caller with several links reach every address of the server over each of them.
    fn join_links(&self, links: usize) -> anyhow::Result<()> {
        for link in 0..links {
            self.caller.ip(&format!("rule add from 10.77.{link}.0/24 table {}", 100 + link))?;
            self.caller.ip(&routes(link))?;
        }
        Ok(())
    }
}

/// Returns the routes to all addresses of the server over one link. Packets from its address take that link. Packets
/// without a source address take it if no better link is up.
fn routes(link: usize) -> String {
    let (table, metric) = (100 + link, 1000 + link);
    format!(
        "route replace 10.77.0.0/16 dev w{link} table {table}
         route replace 10.77.0.0/16 dev w{link} metric {metric}
         route replace fd77::/48 dev w{link} metric {metric}"
    )
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let Some(ledger) = &self.ledger else { return };
        let mut all = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        for report in self.wires.iter().filter_map(Wire::last_report) {
            all.merge(&report.late);
        }
    }
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Caller => Self::Server,
            Self::Server => Self::Caller,
        }
    }

    fn last(self) -> u8 {
        match self {
            Self::Caller => 1,
            Self::Server => 2,
        }
    }

    fn address(self, link: usize) -> IpAddr {
        Ipv4Addr::new(10, 77, link as u8, self.last()).into()
    }
}

/// Returns why no testbed can be made here, and what to do about it. `None` if one can be made.
pub(crate) fn missing() -> Option<String> {
    if !sys::is_root() {
        return Some("hosts and links take root: run it with sudo".into());
    }
    let perfect = LinkPlan { up: LinkConfig::default(), down: LinkConfig::default() };
    Testbed::new(&[perfect], 1).err().map(|error| {
        format!("no hosts and links can be made here: {error:#} (this needs a Linux kernel with network namespaces, /dev/net/tun and iproute2)")
    })
}

/// Ends the processes that a killed run has left. Returns how many there were.
pub(crate) fn end_leftovers() -> io::Result<usize> {
    leftover::end()
}

#[cfg(test)]
mod tests;
