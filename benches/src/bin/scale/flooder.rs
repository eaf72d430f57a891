//! A peer that sends as fast as it can.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use whimbrel::{Config, Endpoint};
use whimbrel_net::Transmit;
use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::crypto::{Identity, PublicKey};
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{ConnectConfig, Datagram, Routed, Time, TransportConfig};

/// The contents of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Messages of 16 KiB, by an honest sender.
    Bulk,
    /// Messages of 50 bytes, by an honest sender.
    Small,
    /// Messages of 16 KiB, by a sender that ignores congestion.
    Greedy,
    /// Datagrams of 1,200 random bytes with a valid id, one per call.
    Garbage,
    /// Datagrams of 64 random bytes with a valid id, one per call.
    Tiny,
    /// Datagrams of 1,200 random bytes, 44 per call, which arrive in one piece.
    Pieces,
    /// Datagrams of 64 random bytes, 44 per call, which arrive in one piece.
    TinyPieces,
}

/// The options of the process that sends the flood.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Flooder {
    #[arg(long)]
    url: String,
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    time: u64,
}

/// The fixed rate of the greedy sender in bytes per second, which is more than its link carries.
const TOO_MUCH: u64 = 10_000_000_000;
/// The number of calls between two looks at the clock.
const ROUND: u64 = 64;

impl Kind {
    pub(crate) const ALL: [Self; 7] =
        [Self::Bulk, Self::Small, Self::Greedy, Self::Garbage, Self::Tiny, Self::Pieces, Self::TinyPieces];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Small => "small",
            Self::Greedy => "greedy",
            Self::Garbage => "garbage",
            Self::Tiny => "tiny",
            Self::Pieces => "pieces",
            Self::TinyPieces => "tiny-pieces",
        }
    }

    /// Returns the bytes of a datagram and the datagrams per call, for a flood of packets that cannot be opened.
    fn garbage(self) -> Option<(usize, usize)> {
        match self {
            Self::Bulk | Self::Small | Self::Greedy => None,
            Self::Garbage => Some((1_200, 1)),
            Self::Tiny => Some((64, 1)),
            Self::Pieces => Some((1_200, 44)),
            Self::TinyPieces => Some((64, 44)),
        }
    }
}

impl Flooder {
    /// Sends the flood. Prints a line when it is connected, and at the end how much it has sent per second.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let sent = match self.kind.garbage() {
            Some((size, segments)) => self.garbage(size, segments).await?,
            None => self.messages().await?,
        };
        println!("{sent}");
        std::future::pending().await
    }

    fn end(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.time)
    }

    async fn messages(&self) -> anyhow::Result<String> {
        let mut config = Config::default();
        if self.kind == Kind::Greedy {
            config.transport.congestion = Congestion::Fixed { bytes_per_s: TOO_MUCH };
        }
        let endpoint = Endpoint::bind(config, "127.0.0.1:0").await?;
        let mocket = endpoint.connect(&self.url).await?;
        println!("connected");
        let (size, many) = if self.kind == Kind::Small { (50, 64) } else { (16 << 10, 4) };
        let (contents, sender, end) = (Bytes::from(vec![0; size]), mocket.sender().build(), self.end());
        let before = mocket.stats().connection.total;
        while Instant::now() < end {
            sender.send_many(std::iter::repeat_n(contents.clone(), many)).await?;
        }
        let after = mocket.stats().connection.total;
        let (sent, lost) =
            (after.sent_packets - before.sent_packets, after.lost_packets - before.lost_packets);
        Ok(format!("{} packets, {:.2} % lost", sent / self.time, lost as f64 * 100.0 / sent as f64))
    }

    async fn garbage(&self, size: usize, segments: usize) -> anyhow::Result<String> {
        let (key, address) = self.url.rsplit_once('@').context("a URL has an address")?;
        let address: SocketAddr = address.parse()?;
        let key = key.trim_start_matches("whimbrel://").parse().context("a URL has a key")?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let id = connect(&socket, address, key)?;
        println!("connected");
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut contents = vec![0; size * segments];
        for datagram in contents.chunks_mut(size) {
            for byte in datagram.iter_mut() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (random >> 56) as u8;
            }
            datagram[0] &= 0x3f;
            datagram[1..9].copy_from_slice(&id);
        }
        socket.set_read_timeout(None)?;
        let socket = whimbrel_net::UdpSocket::from_std(socket)?;
        let segment_size = (segments > 1).then_some(size);
        let transmit =
            Transmit { destination: address, ecn: None, contents: &contents, segment_size, src_ip: None };
        let (end, mut sent) = (self.end(), 0);
        while Instant::now() < end {
            for _ in 0..ROUND {
                socket.send(&transmit).await?;
            }
            sent += ROUND * segments as u64;
        }
        Ok(format!("{} datagrams", sent / self.time))
    }
}

/// Connects through this socket. Returns the id by which the server knows the connection.
fn connect(socket: &UdpSocket, address: SocketAddr, key: PublicKey) -> anyhow::Result<[u8; 8]> {
    let transport = TransportConfig::default();
    let seed = std::array::from_fn(|at| (std::process::id() >> (at % 4 * 8)) as u8);
    let identity = Identity::from_secret(seed);
    let mut endpoint = whimbrel_proto::Endpoint::new(identity, None, transport.clone(), 0, seed, true);
    let config = ConnectConfig {
        server_key: ServerKey::Known(key),
        protocol: Bytes::new(),
        psk: None,
        ticket: None,
        alternatives: Vec::new(),
        transport,
    };
    socket.set_read_timeout(Some(Duration::from_millis(10)))?;
    let (begun, mut out, mut id) = (Instant::now(), Vec::new(), None);
    let now = || Time::ZERO + begun.elapsed();
    let (handle, mut connection) = endpoint.connect(now(), address, config);
    while begun.elapsed() < Duration::from_secs(5) {
        while let Some(transmit) = connection.poll_transmit(now(), &mut out, 1) {
            socket.send_to(&out[..transmit.size], address)?;
            // A sealed packet that is not early carries the connection's id.
            if out[0] & 0xc0 == 0 {
                id = out[1..9].try_into().ok();
            }
            out.clear();
        }
        if let Some(id) = id.filter(|_| connection.is_peer_proven()) {
            return Ok(id);
        }
        let mut bytes = [0; 2048];
        if let Ok((size, from)) = socket.recv_from(&mut bytes) {
            let datagram = Datagram { from, to: None, ecn: None, bytes: BytesMut::from(&bytes[..size]) };
            if let Routed::Connection(_, datagram) =
                endpoint.handle_datagram(now(), datagram, &mut Vec::new())
            {
                connection.handle_datagram(now(), datagram);
            }
        }
        if connection.poll_timeout().is_some_and(|due| due <= now()) {
            connection.handle_timeout(now());
        }
        while let Some(event) = connection.poll_endpoint_event() {
            if let Some(answer) = endpoint.handle_event(now(), handle, event) {
                connection.handle_answer(answer);
            }
        }
    }
    bail!("the server does not answer")
}
