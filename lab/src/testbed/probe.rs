//! The laboratory's own packets, which measure its links.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::sys::{self, monotonic};
use super::{Side, Testbed};
use crate::stats::{percentile, sorted};

/// Address and port where the probes arrive.
const AT: (&str, u16) = ("10.77.0.2", 5000);
/// IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Bytes of the payload that is sent back.
const ECHO: usize = 172;
/// Time that TCP gets to fill a link.
const WARM_UP: Duration = Duration::from_secs(1);
/// IP bytes of a full packet, and the TCP payload in it, with timestamps.
const PACKET: f64 = 1500.0;
const SEGMENT: f64 = 1448.0;
/// Receive buffer in bytes, including the kernel's overhead. It holds several seconds of any load, so that a busy
/// machine does not look like a lossy link.
const UNREAD: i32 = 64 << 20;
/// Silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_secs(1);

/// A socket on each side of the first link.
pub(crate) struct Probe {
    sender: UdpSocket,
    receiver: UdpSocket,
}

/// The packets to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes of the IP packet.
    pub(crate) size: usize,
    /// Time from one packet to the next. Zero sends a burst of 100.
    pub(crate) gap: Duration,
    /// Seconds to send for.
    pub(crate) seconds: f64,
}

/// The packets that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// Number of packets sent.
    pub(crate) sent: u64,
    /// Seconds that sending took.
    pub(crate) seconds: f64,
    size: usize,
    /// Delays in nanoseconds, ascending.
    delays: Vec<u64>,
    first: u64,
    last: u64,
}

impl Probe {
    pub(crate) fn new(testbed: &Testbed) -> anyhow::Result<Self> {
        let receiver = testbed.host(Side::Server).within(|| UdpSocket::bind(AT))??;
        let sender = testbed.host(Side::Caller).within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
        sender.connect(AT)?;
        receiver.set_read_timeout(Some(SILENCE))?;
        sys::keep_unread(&receiver, UNREAD)?;
        Ok(Self { sender, receiver })
    }

    /// Sends a load and waits for its packets to arrive.
    pub(crate) fn run(self, load: Load) -> anyhow::Result<Arrivals> {
        let Self { sender, receiver } = self;
        let listening = thread::spawn(move || receive(&receiver, load.size));
        let (sent, seconds) = send(&sender, load)?;
        let (mut delays, first, last) = listening.join().ok().context("the receiver has panicked")?;
        delays.sort_unstable();
        Ok(Arrivals { sent, seconds, size: load.size, delays, first, last })
    }

    /// Measures the round trip to the other side, one packet after the other. Returns the median in seconds.
    pub(crate) fn round_trip(self, seconds: f64) -> anyhow::Result<f64> {
        let Self { sender, receiver } = self;
        sender.set_read_timeout(Some(SILENCE))?;
        let answering = thread::spawn(move || answer(&receiver));
        let (mut packet, mut trips, begun) = ([0; ECHO], Vec::new(), Instant::now());
        while begun.elapsed().as_secs_f64() < seconds {
            let start = Instant::now();
            sender.send(&packet)?;
            sender.recv(&mut packet).context("no answer arrived")?;
            trips.push(start.elapsed().as_secs_f64());
        }
        drop(answering.join());
        percentile(&sorted(trips), 0.5).context("no time for a round trip")
    }

    /// Measures the IP bits per second that TCP carries over the first link. It lasts `seconds`, after a second of
    /// warm-up.
    pub(crate) fn tcp(testbed: &Testbed, seconds: f64) -> anyhow::Result<f64> {
        let listener = testbed.host(Side::Server).within(|| TcpListener::bind(AT))??;
        let reading = thread::spawn(move || read_all(&listener));
        let to = SocketAddr::new(testbed.addresses(Side::Server)[0], AT.1);
        let mut stream = testbed.host(Side::Caller).within(move || TcpStream::connect(to))??;
        let (block, end) = (vec![0; 256 * 1024], Instant::now() + WARM_UP + Duration::from_secs_f64(seconds));
        while Instant::now() < end {
            stream.write_all(&block)?;
        }
        drop(stream);
        reading.join().ok().context("the receiver has panicked")?
    }
}

impl Arrivals {
    /// Counts the packets that arrived.
    pub(crate) fn received(&self) -> usize {
        self.delays.len()
    }

    /// Returns the IP bits per second between the first and the last arrival.
    pub(crate) fn rate(&self) -> Option<f64> {
        let after_first = self.delays.len().checked_sub(1)?;
        let nanos = self.last.checked_sub(self.first).filter(|nanos| *nanos > 0)?;
        Some((after_first * self.size * 8) as f64 / (nanos as f64 / 1e9))
    }

    /// Returns the delay in seconds that this share of packets did not exceed.
    pub(crate) fn delay(&self, share: f64) -> Option<f64> {
        let last = self.delays.len().checked_sub(1)?;
        Some(self.delays[(share * last as f64).round() as usize] as f64 / 1e9)
    }

    /// Returns the share of packets that did not arrive.
    pub(crate) fn loss(&self) -> f64 {
        1.0 - self.delays.len() as f64 / self.sent as f64
    }
}

/// Sends a load. Each packet carries the time of its send call. Returns how many there were, and how many seconds that
/// took.
fn send(socket: &UdpSocket, load: Load) -> anyhow::Result<(u64, f64)> {
    let mut packet = vec![0; load.size - HEADERS];
    let start = Instant::now();
    let count = if load.gap.is_zero() { 100 } else { (load.seconds / load.gap.as_secs_f64()) as u64 };
    for number in 0..count {
        let due = start + load.gap.mul_f64(number as f64);
        while let Some(wait) = due.checked_duration_since(Instant::now()) {
            // The timers of an ordinary thread are some 50 µs late. Packets that have come due in the meantime go out
            // together.
            thread::sleep(wait);
        }
        packet[..8].copy_from_slice(&monotonic().to_be_bytes());
        socket.send(&packet)?;
    }
    Ok((count, start.elapsed().as_secs_f64()))
}

/// Sends each packet back, until no more arrive.
fn answer(socket: &UdpSocket) -> std::io::Result<()> {
    let mut packet = [0; ECHO];
    loop {
        let (length, from) = socket.recv_from(&mut packet)?;
        socket.send_to(&packet[..length], from)?;
    }
}

/// Returns the delays, and the times of the first and the last arrival.
fn receive(socket: &UdpSocket, size: usize) -> (Vec<u64>, u64, u64) {
    let mut packet = vec![0; size];
    let (mut delays, mut first, mut last) = (Vec::new(), None, 0);
    while let Ok(length) = socket.recv(&mut packet) {
        if let Some(stamp) = packet[..length].first_chunk() {
            last = monotonic();
            first.get_or_insert(last);
            delays.push(last.saturating_sub(u64::from_be_bytes(*stamp)));
        }
    }
    (delays, first.unwrap_or(0), last)
}

fn read_all(listener: &TcpListener) -> anyhow::Result<f64> {
    let (mut stream, _) = listener.accept()?;
    let warm = Instant::now() + WARM_UP;
    let (mut block, mut bytes) = (vec![0; 256 * 1024], 0);
    let mut span: Option<(Instant, Instant)> = None;
    loop {
        let (length, now) = (stream.read(&mut block)?, Instant::now());
        match &mut span {
            _ if length == 0 => break,
            Some((_, until)) => (bytes, *until) = (bytes + length, now),
            None if now >= warm => span = Some((now, now)),
            None => {}
        }
    }
    let (from, until) = span.context("nothing arrived after the first second")?;
    Ok(bytes as f64 * 8.0 / until.duration_since(from).as_secs_f64() * PACKET / SEGMENT)
}
