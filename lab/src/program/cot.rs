//! XML records like those of Cursor on Target: a program that sends them, as a stream or as datagrams, and one that
//! receives them.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until, timeout};

use super::connect;
use super::watch::Socket;
use super::web::listen;
use crate::peer::side;

/// The text in front of a document's records, and behind them.
const HEAD: &str = "<?xml version='1.0' encoding='UTF-8' standalone='yes'?>\n<events>\n";
const FOOT: &str = "</events>\n";
/// Time without a record after which none is waited for.
const SETTLE: Duration = Duration::from_secs(3);

/// Returns record number `at`. They differ in what differs between reports of many units.
pub(crate) fn record(at: u64) -> String {
    let mut state = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let unit = random(200);
    let (minute, second, part) = (at / 60 % 60, at % 60, random(1_000));
    let (lat, lon) = (random(1_000_000), random(1_000_000));
    let (height, speed, course) = (random(4_000), random(300), random(3_600));
    let kinds = ["a-f-G-U-C", "a-f-G-U-C-I", "a-h-G", "a-n-A-C-F", "b-m-p-s-m"];
    let teams = ["Cyan", "Green", "Dark Blue", "White", "Orange"];
    let (kind, team, battery) = (kinds[random(5) as usize], teams[(unit % 5) as usize], random(100));
    let place = format!("lat='46.{lat:06}' lon='11.{lon:06}' hae='{height}.{}'", random(10));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "<event version='2.0' uid='ANDROID-{:016x}' type='{kind}' time='2026-03-01T12:{minute:02}:{second:02}.{part:03}Z' \
         start='2026-03-01T12:{minute:02}:{second:02}.{part:03}Z' stale='2026-03-01T12:{:02}:{second:02}.{part:03}Z' how='m-g'>\
         <point {place} ce='{}.0' le='9999999.0'/>\
         <detail><contact callsign='UNIT-{unit}' endpoint='10.1.{}.{}:4242:tcp'/><__group name='{team}' role='Team Member'/>\
         <status battery='{battery}'/><track speed='{}.{}' course='{}.{}'/><precisionlocation geopointsrc='GPS' altsrc='GPS'/>\
         </detail></event>",
        unit.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        (minute + 5) % 60,
        random(30),
        unit % 8,
        unit,
        speed / 10,
        speed % 10,
        course / 10,
        course % 10,
    );
    text
}

/// Returns a document of so many bytes. The last record is cut into a comment.
pub(crate) fn document(bytes: usize) -> Vec<u8> {
    let mut text = HEAD.to_owned();
    // Documents of different sizes have different records.
    let mut at = bytes as u64 * 1_000;
    while text.len() + FOOT.len() < bytes {
        text.push_str(&record(at));
        at += 1;
    }
    text.truncate(bytes.saturating_sub(FOOT.len()));
    text.push_str(FOOT);
    text.truncate(bytes);
    text.into_bytes()
}

/// How records are sent.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Kind {
    /// One after the other over one connection.
    Stream,
    /// One a datagram.
    Datagrams,
}

/// The records that were sent, or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

#[derive(clap::Args)]
pub(crate) struct Cot {
    /// The receiver
    #[arg(long)]
    to: SocketAddr,
    /// SOCKS5 proxy to go through
    #[arg(long)]
    socks: Option<SocketAddr>,
    #[arg(long)]
    kind: Kind,
    /// Records a second
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    count: u64,
}

impl Cot {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("sent", async {
            let mut told = Told::default();
            let mut stream = match self.kind {
                Kind::Stream => Some(connect(self.to, self.socks).await?),
                Kind::Datagrams => None,
            };
            let socket = match self.kind {
                Kind::Stream => None,
                Kind::Datagrams => Some(Socket::new(self.socks).await?),
            };
            let start = Instant::now();
            for at in 0..self.count {
                sleep_until(start + Duration::from_secs_f64(at as f64 / self.rate)).await;
                let record = record(at);
                if let Some(stream) = &mut stream {
                    stream.write_all(record.as_bytes()).await?;
                }
                if let Some(socket) = &socket {
                    socket.send(record.as_bytes(), self.to).await?;
                }
                told.records += 1;
                told.bytes += record.len() as u64;
            }
            if let Some(mut stream) = stream {
                stream.shutdown().await?;
                // The receiver ends when it has everything.
                stream.read_to_end(&mut Vec::new()).await?;
            }
            Ok(told)
        })
    }
}

#[derive(clap::Args)]
pub(crate) struct CotSink {
    /// Address to listen at, on any port
    #[arg(long)]
    at: IpAddr,
    #[arg(long)]
    kind: Kind,
}

impl CotSink {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("received", async {
            match self.kind {
                Kind::Stream => {
                    let listener = listen(self.at, None)?;
                    side::ready(&listener.local_addr()?.to_string())?;
                    let (mut stream, _) = listener.accept().await?;
                    let mut text = String::new();
                    stream.read_to_string(&mut text).await?;
                    let told = Told { records: text.lines().count() as u64, bytes: text.len() as u64 };
                    let whole =
                        text.lines().enumerate().all(|(at, line)| record(at as u64).trim_end() == line);
                    anyhow::ensure!(whole, "what arrived is not what was sent");
                    Ok(told)
                }
                Kind::Datagrams => {
                    let socket = UdpSocket::bind((self.at, 0)).await?;
                    side::ready(&socket.local_addr()?.to_string())?;
                    let (mut told, mut buffer) = (Told::default(), vec![0; 65_536]);
                    let mut length = socket.recv(&mut buffer).await.context("no record")?;
                    loop {
                        told.records += 1;
                        told.bytes += length as u64;
                        match timeout(SETTLE, socket.recv(&mut buffer)).await {
                            Ok(received) => length = received?,
                            Err(_) => return Ok(told),
                        }
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_size_that_was_asked_for_and_records_differ() {
        for bytes in [1133, 2268, 9570, 141_349] {
            assert_eq!(document(bytes).len(), bytes);
        }
        assert!((300..900).contains(&record(1).len()), "{}", record(1));
        assert!((0..100).all(|at| record(at) != record(at + 1) && record(at).ends_with("</event>\n")));
        assert_eq!(record(7), record(7));
    }
}
