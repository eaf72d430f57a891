//! Bare UDP, the lower bound of the cost. It has no order, no retransmission, no encryption, and nothing slows a sender
//! down.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context;
use whimbrel_net::{BATCH_SIZE, RecvBatch, Transmit, UdpSocket};

use super::{LOCAL, Peer, Side, ready};
use crate::job::{BATCH, BULK, Job, PING, SMALL, Workload};
use crate::meter::{Figures, Meter, Stopwatch};

/// UDP through whimbrel-net, with segmentation offload in both directions. Latency is measured with tokio's own socket.
pub(super) struct Udp;

impl Peer for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn workloads(&self) -> &'static [Workload] {
        // `batch` sends 64 datagrams per call, `datagrams` sends one.
        &[Workload::Bulk, Workload::Batch, Workload::Datagrams, Workload::Latency]
    }

    fn serve<'a>(&'a self, job: &'a Job) -> Side<'a> {
        Box::pin(async move {
            if job.workload == Workload::Latency { answer().await } else { receive(job).await.map(Some) }
        })
    }

    fn run<'a>(&'a self, job: &'a Job, address: &'a str) -> Side<'a> {
        Box::pin(async move {
            let to: SocketAddr = address.parse()?;
            match job.workload {
                Workload::Bulk => send(to, BULK, 44).await,
                Workload::Batch => send(to, SMALL, BATCH).await,
                Workload::Datagrams | Workload::Each => send(to, SMALL, 1).await,
                Workload::Latency => ask(job, to).await.map(Some),
            }
        })
    }
}

async fn receive(job: &Job) -> anyhow::Result<Figures> {
    let socket = UdpSocket::bind(LOCAL)?;
    ready(&socket.local_addr()?.to_string())?;
    let (mut batch, mut meter) = (RecvBatch::new(BATCH_SIZE), Meter::new(job));
    loop {
        batch.fill_from(&socket).await?;
        let mut bytes = 0;
        for datagram in batch.datagrams() {
            bytes += datagram.payload.len();
            meter.number(datagram.payload);
        }
        if let Some(figures) = meter.add(bytes) {
            return Ok(figures);
        }
    }
}

async fn send(destination: SocketAddr, size: usize, count: usize) -> anyhow::Result<Option<Figures>> {
    let socket = UdpSocket::bind(LOCAL)?;
    let mut contents = vec![0; size * count];
    let mut number = 0u64;
    loop {
        for datagram in contents.chunks_exact_mut(size) {
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            number += 1;
        }
        let segment_size = (count > 1).then_some(size);
        socket
            .send(&Transmit { destination, ecn: None, contents: &contents, segment_size, src_ip: None })
            .await?;
    }
}

async fn answer() -> anyhow::Result<Option<Figures>> {
    let socket = tokio::net::UdpSocket::bind(LOCAL).await?;
    ready(&socket.local_addr()?.to_string())?;
    let mut buffer = [0; 2048];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await?;
        socket.send_to(&buffer[..length], from).await?;
    }
}

async fn ask(job: &Job, to: SocketAddr) -> anyhow::Result<Figures> {
    let socket = tokio::net::UdpSocket::bind(LOCAL).await?;
    let (mut buffer, mut stopwatch) = ([0; PING], Stopwatch::new(job));
    loop {
        let asked = Instant::now();
        socket.send_to(&buffer, to).await?;
        socket.recv(&mut buffer).await.context("no answer")?;
        if let Some(figures) = stopwatch.answered(asked) {
            return Ok(figures);
        }
    }
}
