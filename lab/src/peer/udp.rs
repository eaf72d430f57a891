//! Bare UDP, the floor: no order, no retransmission, no encryption, and nothing that slows a sender down.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout, timeout_at};

use super::pieces::{self, Pieces};
use super::side::{ready, receive, send, started};
use super::source::Source;
use super::tally::Tally;
use super::{Peer, Work};
use crate::job::{Figures, Job, Sent};

/// Variable that sets the rate of bulk data, Mbit/s of payload.
const RATE: &str = "LAB_UDP_MBPS";
/// Bytes of a datagram of bulk data. It makes a packet of 1,500 bytes over IPv4.
const BULK: usize = 1472;
/// Longest datagram, in bytes.
const LONGEST: usize = 65_507;
/// Datagram that says that no more will come. It is shorter than any message.
const END: &[u8] = b"end";
/// Time for which datagrams may still arrive after the end was announced.
const SETTLE: Duration = Duration::from_millis(500);
/// Interval at which the end is announced until it is answered.
const INSIST: Duration = Duration::from_millis(50);
/// Receive buffer, in bytes.
const BUFFER: usize = 8 << 20;

/// UDP.
pub(super) struct Udp;

impl Peer for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn settings(&self) -> String {
        format!(
            "UDP of Linux {}: a datagram a message, frames in datagrams of {BULK} bytes, receive buffer of 8 MiB; bulk data only at a rate given by {RATE}, in \
             datagrams of {BULK} bytes",
            super::tcp::kernel()
        )
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn can(&self, job: &Job) -> bool {
        match job {
            Job::Bulk => rate().is_some(),
            Job::Transfer { .. } => false,
            Job::Messages { size, .. } => *size <= LONGEST,
            Job::Frames { .. } => true,
        }
    }

    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures> {
        Box::pin(async move {
            let socket = UdpSocket::bind(SocketAddr::new(at[0], 0)).await?;
            // Without privilege, the system refuses more than its limit and keeps the default.
            SockRef::from(&socket).set_recv_buffer_size(BUFFER).ok();
            ready(&socket.local_addr()?.to_string())?;
            let frames = matches!(job, Job::Frames { .. }).then(Pieces::default);
            receive(job, async |tally| take(&socket, frames, tally).await).await
        })
    }

    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent> {
        Box::pin(send(async move |sent| {
            let socket = UdpSocket::bind(SocketAddr::new(from[0], 0)).await?;
            started()?;
            socket.connect(to).await?;
            let mut source = source(job);
            while let Some(message) = source.next().await {
                sent.messages += 1;
                let datagrams = match job {
                    Job::Frames { .. } => pieces::cut(&message, BULK).collect(),
                    _ => vec![message.clone()],
                };
                for datagram in datagrams {
                    // A full queue of the device counts as loss.
                    socket.send(&datagram).await.ok();
                    sent.bytes += datagram.len() as u64;
                }
            }
            loop {
                socket.send(END).await.ok();
                if timeout(INSIST, socket.recv(&mut [0; 16])).await.is_ok() {
                    return Ok(());
                }
            }
        }))
    }
}

/// Returns the rate of bulk data in Mbit/s.
fn rate() -> Option<f64> {
    std::env::var(RATE).ok()?.parse().ok().filter(|rate| *rate > 0.0)
}

fn source(job: &Job) -> Source {
    match *job {
        Job::Messages { size, rate, count, .. } => Source::new(size, rate, count),
        Job::Frames { rate, count, .. } => Source::of_frames(rate, count),
        _ => Source::new(BULK, rate().unwrap_or(1.0) * 1e6 / 8.0 / BULK as f64, u64::MAX),
    }
}

async fn take(socket: &UdpSocket, mut frames: Option<Pieces>, tally: &mut Tally) -> anyhow::Result<()> {
    let (mut buffer, mut ending) = (vec![0; 1 << 16], None);
    while !tally.is_done() {
        let next = socket.recv_from(&mut buffer);
        let received = match ending {
            Some(end) => timeout_at(end, next).await,
            None => Ok(next.await),
        };
        let Ok(received) = received else { return Ok(()) };
        let (length, from) = received?;
        let datagram = &buffer[..length];
        if datagram != END {
            match &mut frames {
                Some(frames) => drop(frames.take(datagram).map(|frame| tally.message(&frame))),
                None => tally.message(datagram),
            }
        } else {
            ending.get_or_insert(Instant::now() + SETTLE);
            socket.send_to(END, from).await?;
        }
    }
    Ok(())
}
