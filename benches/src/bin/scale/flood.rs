//! Measures how a flood of SYNs affects a connection over an emulated link.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use whimbrel::{Config, Endpoint};
use whimbrel_link::relay::{Relay, RelayConfig};
use whimbrel_proto::crypto::Identity;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{ConnectConfig, Time, TransportConfig};

use crate::process::Process;

/// The options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Flood {
    /// The number of SYNs a second
    #[arg(long, default_value_t = 100_000)]
    rate: u64,
    /// The duration of each measurement in seconds, with the flood and without
    #[arg(long, default_value_t = 5)]
    time: u64,
    /// The settings of the link, for both directions
    #[arg(long, default_value = "rate=100mbit, delay=10ms")]
    link: String,
    /// The number of trials, each without and with the flood
    #[arg(long, default_value_t = 3)]
    trials: usize,
}

/// The options of the process that sends the flood.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Syns {
    #[arg(long)]
    url: String,
    #[arg(long)]
    rate: u64,
    #[arg(long)]
    time: u64,
}

/// The time before measuring starts, in which congestion control finds the link's rate.
const WARM_UP: Duration = Duration::from_secs(3);
/// The number of different SYNs. They are sent in turn.
const DIFFERENT: usize = 1000;
/// The time between bursts of SYNs.
const BURST: Duration = Duration::from_millis(1);

impl Flood {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (mut server, url) = Process::server().await?;
        let (key, address) = url.rsplit_once('@').context("a URL has an address")?;
        let mut link = RelayConfig::new("127.0.0.1:0".parse()?, address.parse()?);
        link.up = self.link.parse()?;
        link.down = link.up.clone();
        let relay = Relay::spawn(link)?;
        let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
        let mocket = endpoint.connect(&format!("{key}@{}", relay.local_addr())).await?;
        let sending = tokio::spawn(async move {
            let contents = Bytes::from(vec![0; 16 << 10]);
            while mocket.send(contents.clone()).await.is_ok() {}
        });
        tokio::time::sleep(WARM_UP).await;
        for _ in 0..self.trials {
            let (quiet, _, _) = self.measure(&mut server).await?;
            let (rate, time) = (self.rate.to_string(), (self.time + 1).to_string());
            let _flood = Process::start(&["syns", "--url", &url, "--rate", &rate, "--time", &time])?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            let before = server.usage()?;
            let (flooded, answered, dropped) = self.measure(&mut server).await?;
            let after = server.usage()?;
            println!(
                "{quiet:.1} Mbit/s, {flooded:.1} Mbit/s ({:.0} %) beside {answered:.0} SYNs answered and {dropped:.0} dropped a second; memory {} KiB, {} KiB; {:.0} % of a core",
                flooded / quiet * 100.0,
                before.resident >> 10,
                after.resident >> 10,
                (after.cpu - before.cpu).as_secs_f64() / self.time as f64 * 100.0,
            );
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
        sending.abort();
        Ok(())
    }

    /// Returns the payload received in Mbit/s, and the SYNs answered and dropped a second.
    async fn measure(&self, server: &mut Process) -> anyhow::Result<(f64, f64, f64)> {
        let (begun, before) = (Instant::now(), server.counts().await?);
        tokio::time::sleep(Duration::from_secs(self.time)).await;
        let after = server.counts().await?;
        let seconds = begun.elapsed().as_secs_f64();
        let megabits = (after.bytes - before.bytes) as f64 * 8.0 / 1e6;
        let syns = |which: usize| (after.syns[which] - before.syns[which]) as f64 / seconds;
        Ok((megabits / seconds, syns(0), syns(1)))
    }
}

impl Syns {
    /// Sends one datagram per call, as many hosts would. The segments of a larger call would arrive in one piece and
    /// cost the server less.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (key, address) = self.url.rsplit_once('@').context("a URL has an address")?;
        let address: SocketAddr = address.parse()?;
        let key = key.trim_start_matches("whimbrel://").parse().context("a URL has a key")?;
        let transport = TransportConfig::default();
        let identity = Identity::from_secret([7; 32]);
        let mut endpoint = whimbrel_proto::Endpoint::new(identity, None, transport.clone(), 0, [7; 32], true);
        let mut syns = Vec::with_capacity(DIFFERENT);
        for _ in 0..DIFFERENT {
            let config = ConnectConfig {
                server_key: ServerKey::Known(key),
                protocol: Bytes::new(),
                psk: None,
                ticket: None,
                alternatives: Vec::new(),
                transport: transport.clone(),
            };
            let (_, mut connection) = endpoint.connect(Time::ZERO, address, config);
            let mut syn = Vec::new();
            connection.poll_transmit(Time::ZERO, &mut syn, 1);
            syns.push(syn);
        }
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(address)?;
        let (begun, mut sent) = (Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(self.time) {
            let due = (begun.elapsed().as_secs_f64() * self.rate as f64) as u64;
            while sent < due {
                // A SYN that the system refuses is not sent again.
                drop(socket.send(&syns[sent as usize % DIFFERENT]));
                sent += 1;
            }
            std::thread::sleep(BURST);
        }
        Ok(())
    }
}
