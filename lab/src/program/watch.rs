//! A client that asks for streams of datagrams.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use fast_socks5::client::Socks5Datagram;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use super::source::{HEADER, Stream};
use crate::clock;
use crate::peer::side;
use crate::stats::{percentile, sorted};

/// Interval at which a stream is asked for until it begins.
const ASK: Duration = Duration::from_millis(200);
/// Longest time until a stream begins.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time after the last datagram in which others may still arrive.
const SETTLE: Duration = Duration::from_secs(3);

/// The part of a stream that arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// The stream.
    pub(crate) stream: Stream,
    /// Different datagrams.
    pub(crate) arrived: u64,
    /// Datagrams that had arrived before.
    pub(crate) twice: u64,
    /// 95th percentile of the time from the send call to the arrival, ms.
    pub(crate) p95_ms: f64,
}

#[derive(clap::Args)]
pub(crate) struct Watch {
    /// Address of the source
    #[arg(long)]
    to: SocketAddr,
    /// SOCKS5 proxy to go through
    #[arg(long)]
    socks: Option<SocketAddr>,
    /// Streams to ask for, each over a socket of its own, as JSON
    #[arg(long)]
    streams: String,
}

impl Watch {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("watched", async {
            let streams: Vec<Stream> = serde_json::from_str(&self.streams)?;
            let mut tasks = Vec::new();
            for stream in streams {
                let socket = Socket::new(self.socks).await?;
                tasks.push(tokio::spawn(async move { watch(&socket, self.to, stream).await }));
            }
            let mut all: Vec<Watched> = Vec::new();
            for task in tasks {
                all.push(task.await??);
            }
            Ok(all)
        })
    }
}

/// A socket, or one behind a proxy.
pub(super) enum Socket {
    Own(UdpSocket),
    Proxied(Socks5Datagram<TcpStream>),
}

impl Socket {
    pub(super) async fn new(socks: Option<SocketAddr>) -> anyhow::Result<Self> {
        Ok(match socks {
            None => Self::Own(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?),
            Some(socks) => {
                let control = TcpStream::connect(socks).await?;
                let own = SocketAddr::new(IpAddr::from(Ipv4Addr::LOCALHOST), 0);
                Self::Proxied(Socks5Datagram::bind(control, own).await?)
            }
        })
    }

    pub(super) async fn send(&self, datagram: &[u8], to: SocketAddr) -> anyhow::Result<()> {
        match self {
            Self::Own(socket) => drop(socket.send_to(datagram, to).await?),
            Self::Proxied(socket) => drop(socket.send_to(datagram, to).await?),
        }
        Ok(())
    }

    async fn recv(&self, datagram: &mut [u8]) -> anyhow::Result<usize> {
        Ok(match self {
            Self::Own(socket) => socket.recv(datagram).await?,
            Self::Proxied(socket) => socket.recv_from(datagram).await?.0,
        })
    }
}

async fn watch(socket: &Socket, from: SocketAddr, stream: Stream) -> anyhow::Result<Watched> {
    let (request, mut datagram) = (serde_json::to_vec(&stream)?, vec![0; 65_536]);
    let first = timeout(PATIENCE, begin(socket, from, &request, &mut datagram)).await;
    let first = first.context("a stream of datagrams did not begin")??;
    let end = Instant::now() + stream.lasting() + SETTLE;
    let (mut seen, mut twice, mut ages) = (BTreeSet::new(), 0, Vec::new());
    let mut received = Some(first);
    while let Some(length) = received {
        if let Some((number, sent)) = header(&datagram[..length]) {
            if seen.insert(number) {
                ages.push(clock::now().saturating_sub(sent) as f64 / 1e6);
            } else {
                twice += 1;
            }
        }
        received = timeout_at(end, socket.recv(&mut datagram)).await.ok().transpose()?;
    }
    let p95_ms = percentile(&sorted(ages), 0.95).unwrap_or_default();
    Ok(Watched { stream, arrived: seen.len() as u64, twice, p95_ms })
}

/// Asks for a stream until its first datagram arrives.
async fn begin(
    socket: &Socket,
    from: SocketAddr,
    request: &[u8],
    datagram: &mut [u8],
) -> anyhow::Result<usize> {
    loop {
        socket.send(request, from).await?;
        if let Ok(received) = timeout(ASK, socket.recv(datagram)).await {
            return received;
        }
    }
}

fn header(datagram: &[u8]) -> Option<(u64, u64)> {
    let (number, rest) = datagram.get(..HEADER)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), u64::from_be_bytes(*rest.first_chunk()?)))
}
