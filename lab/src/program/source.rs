//! A server that sends streams of datagrams to whoever asks.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

use crate::clock;
use crate::peer::side;

/// Bytes at the front of each datagram: its number and the time of its send call, 8 bytes each.
pub(super) const HEADER: usize = 16;

/// Datagrams at a steady rate. Whoever wants them sends this as JSON, in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// Payload bytes of each datagram, at least 16.
    pub(crate) size: usize,
    /// Datagrams per second.
    pub(crate) rate: f64,
    /// Number of datagrams.
    pub(crate) count: u64,
}

impl Stream {
    /// Returns how long it lasts.
    pub(crate) fn lasting(&self) -> Duration {
        Duration::from_secs_f64(self.count as f64 / self.rate)
    }
}

#[derive(clap::Args)]
pub(crate) struct Source {
    /// Address to listen at, on any port
    #[arg(long)]
    at: IpAddr,
}

impl Source {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("served", async {
            let socket = Arc::new(UdpSocket::bind(SocketAddr::new(self.at, 0)).await?);
            side::ready(&socket.local_addr()?.to_string())?;
            tokio::select! {
                served = serve(&socket) => served,
                () = side::ended() => Ok(()),
            }
        })
    }
}

async fn serve(socket: &Arc<UdpSocket>) -> anyhow::Result<()> {
    let (mut known, mut datagram) = (BTreeSet::new(), [0; 1500]);
    loop {
        // An error is what the network says of an earlier datagram, whose receiver has gone.
        let Ok((length, from)) = socket.recv_from(&mut datagram).await else { continue };
        // Whoever asks again has not heard anything yet.
        if let Ok(stream) = serde_json::from_slice::<Stream>(&datagram[..length])
            && known.insert(from)
        {
            tokio::spawn(send(Arc::clone(socket), from, stream));
        }
    }
}

async fn send(socket: Arc<UdpSocket>, to: SocketAddr, stream: Stream) {
    let (start, mut datagram) = (Instant::now(), vec![0; stream.size.max(HEADER)]);
    for number in 0..stream.count {
        sleep_until(start + Duration::from_secs_f64(number as f64 / stream.rate)).await;
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        datagram[8..HEADER].copy_from_slice(&clock::now().to_be_bytes());
        // As above. What is not sent counts as lost.
        drop(socket.send_to(&datagram, to).await);
    }
}
