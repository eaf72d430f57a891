//! The seam: what a transport has to do to be measured. One file a transport; to add one, implement [`Peer`] and name it in
//! [`all`].

mod byte_stream;
mod certificate;
mod hex;
mod leaving;
mod mptcp;
mod quic;
mod record;
mod sctp;
mod side;
mod source;
mod tcp;
mod tls;
mod udp;
mod version;
mod whimbrel;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::whimbrel::Congestion;
use anyhow::Context;

use self::whimbrel::{Copies, Whimbrel};
use crate::job::{Figures, Job, Sent};

pub(crate) use leaving::{Arrive, Leave, Left};

/// What a side does until it is done; whoever starts it ends it by closing its standard input.
pub(crate) type Side<'a, T> = Pin<Box<dyn Future<Output = anyhow::Result<T>> + 'a>>;

/// A transport under measurement. `serve` receives, `call` sends.
pub(crate) trait Peer: Sync {
    /// Its name in tables and on the command line, such as `tcp-bbr`.
    fn name(&self) -> &'static str;

    /// What it is, its version, and every setting that differs from its default and why: goes into the report.
    fn settings(&self) -> String;

    /// Why it cannot run here (not installed, kernel without it), and what to do; none if it can.
    fn missing(&self) -> Option<String>;

    /// Whether it has a way to do this.
    fn can(&self, job: &Job) -> bool;

    /// Whether it takes part only where an experiment names it.
    fn is_special(&self) -> bool {
        false
    }

    /// Listens at `at`, calls [`side::ready`] with all that the other side needs to know (one word), takes one caller.
    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Side<'a, Figures>;

    /// Calls [`side::started`] and connects to what `serve` was `ready` with; `from` are this host's addresses, the first the main one.
    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Side<'a, Sent>;
}

/// All peers, in the order of tables.
pub(crate) fn all() -> &'static [&'static dyn Peer] {
    &[
        &whimbrel::OURS,
        &Whimbrel { name: "whimbrel-rs", sequenced: true, ..whimbrel::OURS },
        &Whimbrel { name: "whimbrel-cubic", congestion: Congestion::Cubic, ..whimbrel::OURS },
        &Whimbrel { name: "whimbrel-once", copies: Some(Copies::Once), ..whimbrel::OURS },
        &Whimbrel { name: "whimbrel-deadline", copies: Some(Copies::Deadline), ..whimbrel::OURS },
        &Whimbrel { name: "whimbrel-urgent", copies: Some(Copies::Urgent), ..whimbrel::OURS },
        &Whimbrel { name: "whimbrel-redundant", copies: Some(Copies::Redundant), ..whimbrel::OURS },
        &tcp::Tcp { name: "tcp-cubic", congestion: "cubic", multipath: false },
        &tcp::Tcp { name: "tcp-bbr", congestion: "bbr", multipath: false },
        &tls::Tls { name: "tls-cubic", congestion: "cubic" },
        &tls::Tls { name: "tls-bbr", congestion: "bbr" },
        &quic::Quinn {
            name: "quinn-cubic",
            congestion: ("CUBIC", || Arc::new(::quinn::congestion::CubicConfig::default())),
        },
        &quic::Quinn {
            name: "quinn-bbr",
            congestion: ("BBR", || Arc::new(::quinn::congestion::BbrConfig::default())),
        },
        &quic::Noq {
            name: "noq",
            congestion: ("CUBIC", || Arc::new(::noq::congestion::CubicConfig::default())),
        },
        &quic::Noq {
            name: "noq-bbr",
            congestion: ("BBRv3", || Arc::new(::noq::congestion::Bbr3Config::default())),
        },
        &tcp::Tcp { name: "mptcp-cubic", congestion: "cubic", multipath: true },
        &tcp::Tcp { name: "mptcp-bbr", congestion: "bbr", multipath: true },
        &sctp::Sctp,
        &udp::Udp,
    ]
}

/// The peer of this name.
pub(crate) fn find(name: &str) -> anyhow::Result<&'static dyn Peer> {
    let peer = all().iter().find(|peer| peer.name() == name);
    peer.copied().with_context(|| format!("there is no peer {name}: `lab list` names them"))
}

/// Silence that peers with a limit of their own bear: an outage ends no trial.
const IDLE: Duration = Duration::from_secs(300);
/// Window of peers that have one of their own, bytes: more than any link of the laboratory has under way.
const WINDOW: u64 = 32 << 20;

/// Where to bind: one address to that, several to all of the host's.
fn anywhere(addresses: &[IpAddr]) -> IpAddr {
    match addresses {
        [one] => *one,
        [first, ..] if first.is_ipv6() => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// What both sides ask before they begin.
fn prepare(peer: &str, job: &str) -> anyhow::Result<(&'static dyn Peer, Job)> {
    let (peer, job) = (find(peer)?, Job::from_json(job)?);
    if let Some(missing) = peer.missing() {
        anyhow::bail!("{}: {missing}", peer.name());
    }
    anyhow::ensure!(peer.can(&job), "{} has no way to do {job:?}", peer.name());
    Ok((peer, job))
}

/// The receiving side of a trial.
#[derive(clap::Args)]
pub(crate) struct Serve {
    #[arg(long)]
    peer: String,
    #[arg(long)]
    job: String,
    #[arg(long, value_delimiter = ',', required = true)]
    at: Vec<IpAddr>,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("figures", async {
            let (peer, job) = prepare(&self.peer, &self.job)?;
            peer.serve(&job, &self.at).await
        })
    }
}

/// The sending side of a trial.
#[derive(clap::Args)]
pub(crate) struct Call {
    #[arg(long)]
    peer: String,
    #[arg(long)]
    job: String,
    #[arg(long, value_delimiter = ',', required = true)]
    from: Vec<IpAddr>,
    to: String,
}

impl Call {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("sent", async {
            let (peer, job) = prepare(&self.peer, &self.job)?;
            peer.call(&job, &self.from, &self.to).await
        })
    }
}
