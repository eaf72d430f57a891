//! The interface that a transport implements to be measured.

mod quic;
mod tcp;
mod udp;
mod whimbrel;

use std::future::Future;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;

use anyhow::{Context, bail};

use crate::job::{Job, Workload};
use crate::meter::Figures;

/// The address on which servers listen.
pub(crate) const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The work of one side. Returns figures on the side that measures, and `None` on the other.
pub(crate) type Side<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Option<Figures>>> + 'a>>;

/// A transport under measurement.
///
/// For every workload but [`Workload::Latency`], the connecting side sends without end. The other side feeds the data
/// to a [`Meter`](crate::meter::Meter) and returns its figures. For latency, the connecting side sends requests and
/// keeps a [`Stopwatch`](crate::meter::Stopwatch), and the other answers without end. A side without end is killed.
pub(crate) trait Peer {
    /// The peer's name in tables and on the command line.
    fn name(&self) -> &'static str;

    /// The workloads that the peer supports.
    fn workloads(&self) -> &'static [Workload];

    /// Listens, calls [`ready`] with a word that tells the other side how to connect, and serves one client.
    fn serve<'a>(&'a self, job: &'a Job) -> Side<'a>;

    /// Connects to the address with which `serve` called [`ready`].
    fn run<'a>(&'a self, job: &'a Job, address: &'a str) -> Side<'a>;
}

/// Returns all peers, in the order of the table.
pub(crate) fn all() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(whimbrel::Whimbrel),
        Box::new(udp::Udp),
        Box::new(quic::Quinn),
        Box::new(quic::Noq),
        Box::new(tcp::Tcp),
    ]
}

/// Tells the other side where to connect.
pub(crate) fn ready(address: &str) -> anyhow::Result<()> {
    println!("ready {address}");
    Ok(std::io::stdout().flush()?)
}

/// Runs the listening side of `job`.
pub(crate) async fn serve(job: &Job) -> anyhow::Result<()> {
    finish(find(job)?.serve(job).await)
}

/// Runs the connecting side of `job`.
pub(crate) async fn run(job: &Job, address: &str) -> anyhow::Result<()> {
    finish(find(job)?.run(job, address).await)
}

fn find(job: &Job) -> anyhow::Result<Box<dyn Peer>> {
    let peer = all().into_iter().find(|peer| peer.name() == job.peer);
    let peer = peer.with_context(|| format!("there is no peer {}", job.peer))?;
    if !peer.workloads().contains(&job.workload) {
        bail!("{} does not support {}", job.peer, job.workload.name());
    }
    Ok(peer)
}

fn finish(result: anyhow::Result<Option<Figures>>) -> anyhow::Result<()> {
    if let Some(figures) = result? {
        println!("figures {}", serde_json::to_string(&figures)?);
    }
    Ok(())
}
