//! The interface of a transport under measurement, and all peers, one file each. To add one, implement [`Peer`] and
//! name it in [`all`].

mod byte_stream;
mod certificate;
mod hex;
mod leaving;
mod mptcp;
mod native;
mod pieces;
mod quic;
mod sctp;
pub(crate) mod side;
mod source;
mod srt;
mod tally;
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

/// The work of one side until it is done. Closing its standard input ends it early.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = anyhow::Result<T>> + 'a>>;

/// A transport under measurement. `serve` receives and `call` sends.
pub(crate) trait Peer: Sync {
    /// Returns its name in tables and on the command line, such as `tcp-bbr`.
    fn name(&self) -> &'static str;

    /// Describes it for the report: its version, and every setting that differs from its default, with the reason.
    fn settings(&self) -> String;

    /// Returns why it cannot run here and what to do, such as installing a package. `None` if it can run.
    fn missing(&self) -> Option<String>;

    /// Returns whether it can do this job.
    fn can(&self, job: &Job) -> bool;

    /// Returns whether it takes part only in experiments that name it.
    fn is_special(&self) -> bool {
        false
    }

    /// Listens at `at` and takes one caller. It calls [`side::ready`] with one word that has all the other side needs
    /// to connect.
    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures>;

    /// Calls [`side::started`] and connects to `to`, the word that `serve` was ready with. `from` holds this host's
    /// addresses, the main one first.
    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent>;
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
        &Whimbrel { name: "whimbrel-unrepaired", copies: Some(Copies::Unrepaired), ..whimbrel::OURS },
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
        &srt::Srt { name: "srt", filter: None },
        &srt::Srt { name: "srt-fec", filter: Some("fec,cols:5,rows:1") },
        &udp::Udp,
    ]
}

/// Returns the peer of this name.
pub(crate) fn find(name: &str) -> anyhow::Result<&'static dyn Peer> {
    let peer = all().iter().find(|peer| peer.name() == name);
    peer.copied().with_context(|| format!("there is no peer {name}: see `lab list`"))
}

/// Idle timeout for peers that have one, so that an outage ends no trial.
const IDLE: Duration = Duration::from_secs(300);
/// Window in bytes for peers that set one. It is more than any link of the laboratory has in flight.
const WINDOW: u64 = 32 << 20;

/// Returns the address to bind to: the only one, or else any.
fn anywhere(addresses: &[IpAddr]) -> IpAddr {
    match addresses {
        [one] => *one,
        [first, ..] if first.is_ipv6() => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Finds the peer and parses the job, and checks that they go together here.
fn prepare(peer: &str, job: &str) -> anyhow::Result<(&'static dyn Peer, Job)> {
    let (peer, job) = (find(peer)?, Job::from_json(job)?);
    if let Some(missing) = peer.missing() {
        anyhow::bail!("{}: {missing}", peer.name());
    }
    anyhow::ensure!(peer.can(&job), "{} cannot do {job:?}", peer.name());
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
