//! A video: datagrams at a constant rate with their numbers, to whoever asks for them.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use fast_socks5::client::Socks5Datagram;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use whimbrel_cli::perf::monotonic_ns;

use crate::cargo::{stamp, stamped};

/// The payload rate, bits per second.
pub(super) const BPS: f64 = SIZE as f64 * 8.0 * 1000.0 / EVERY.as_millis() as f64;
const SIZE: usize = 1000;
const EVERY: Duration = Duration::from_millis(20);
/// How often the video is asked for until it begins.
const ASK: Duration = Duration::from_millis(200);
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after the last datagram others may still arrive.
const SETTLE: Duration = Duration::from_secs(2);
const PLEASE: &[u8] = b"the video, please";

/// A server that sends the video once, to the first that asks.
pub(super) struct Video {
    socket: UdpSocket,
    lasting: Duration,
}

/// The video as it arrived.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// When each datagram was sent, by its number.
    sent_ns: Vec<u64>,
    arrived: BTreeSet<u64>,
    /// Datagrams that had arrived before.
    pub(super) twice: u64,
}

impl Watched {
    /// Returns the share that arrived of the datagrams that were sent at such times, and how many these are.
    pub(super) fn share(&self, counts: impl Fn(u64) -> bool) -> (f64, usize) {
        let numbered = (0..).zip(&self.sent_ns);
        let counted: Vec<u64> = numbered.filter(|(_, at)| counts(**at)).map(|(number, _)| number).collect();
        let arrived = counted.iter().filter(|number| self.arrived.contains(number)).count();
        (arrived as f64 / counted.len().max(1) as f64, counted.len())
    }
}

impl Video {
    pub(super) async fn bind(lasting: Duration) -> anyhow::Result<Self> {
        Ok(Self { socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?, lasting })
    }

    pub(super) fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }

    /// Shows the video to a client that goes through SOCKS5.
    pub(super) async fn through(&self, socks: SocketAddr) -> anyhow::Result<Watched> {
        let control = TcpStream::connect(socks).await?;
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = Client::Proxied(Socks5Datagram::bind(control, own).await?, self.address()?);
        self.show(&socket).await
    }

    /// Shows the video to a client that finds it at this address.
    pub(super) async fn over(&self, address: SocketAddr) -> anyhow::Result<Watched> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect(address).await?;
        self.show(&Client::Direct(socket)).await
    }

    async fn show(&self, client: &Client) -> anyhow::Result<Watched> {
        let (sent_ns, (arrived, twice)) = tokio::try_join!(self.send(), watch(client, self.lasting))?;
        Ok(Watched { sent_ns, arrived, twice })
    }

    async fn send(&self) -> anyhow::Result<Vec<u64>> {
        let asked = timeout(PATIENCE, self.socket.recv_from(&mut [0; 64])).await;
        let (_, to) = asked.context("nobody asks for the video")??;
        let (start, mut sent_ns) = (Instant::now(), Vec::new());
        for number in 0..(self.lasting.as_millis() / EVERY.as_millis()) as u32 {
            sleep_until(start + EVERY * number).await;
            sent_ns.push(monotonic_ns());
            // What cannot be sent is lost.
            drop(self.socket.send_to(&stamped(number.into(), SIZE), to).await);
        }
        Ok(sent_ns)
    }
}

/// The client's socket.
enum Client {
    Direct(UdpSocket),
    Proxied(Socks5Datagram<TcpStream>, SocketAddr),
}

impl Client {
    async fn ask(&self) -> anyhow::Result<()> {
        match self {
            Self::Direct(socket) => drop(socket.send(PLEASE).await?),
            Self::Proxied(socket, to) => drop(socket.send_to(PLEASE, *to).await?),
        }
        Ok(())
    }

    async fn recv(&self, datagram: &mut [u8]) -> anyhow::Result<usize> {
        Ok(match self {
            Self::Direct(socket) => socket.recv(datagram).await?,
            Self::Proxied(socket, _) => socket.recv_from(datagram).await?.0,
        })
    }
}

/// Asks for the video until it begins, and watches it. Returns the numbers that arrived, and how many came again.
async fn watch(client: &Client, lasting: Duration) -> anyhow::Result<(BTreeSet<u64>, u64)> {
    let (mut numbers, mut twice, mut datagram) = (BTreeSet::new(), 0, vec![0; 65_536]);
    let first = timeout(PATIENCE, async {
        loop {
            client.ask().await?;
            if let Ok(received) = timeout(ASK, client.recv(&mut datagram)).await {
                return received;
            }
        }
    });
    let mut received = Some(first.await.context("the video does not begin")??);
    let end = Instant::now() + lasting + SETTLE;
    while let Some(length) = received {
        if let Some((number, _)) = stamp(&datagram[..length]) {
            twice += u64::from(!numbers.insert(number));
        }
        received = timeout_at(end, client.recv(&mut datagram)).await.ok().transpose()?;
    }
    Ok((numbers, twice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_datagrams_that_count() {
        let watched = Watched { sent_ns: vec![10, 20, 30, 40], arrived: [0, 1, 3].into(), twice: 0 };
        assert_eq!(watched.share(|_| true), (0.75, 4));
        assert_eq!(watched.share(|at| at < 30), (1.0, 2));
        assert_eq!(watched.share(|at| at > 40), (0.0, 0));
    }

    #[tokio::test]
    async fn without_loss_all_of_it_arrives_once() {
        let video = Video::bind(Duration::from_millis(100)).await.unwrap();
        let watched = video.over(video.address().unwrap()).await.unwrap();
        assert_eq!((watched.share(|_| true), watched.twice), ((1.0, 5), 0));
    }
}
