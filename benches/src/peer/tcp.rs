//! Kernel TCP, which has no encryption and uses packets of 64 KB on loopback.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{LOCAL, Peer, Side, ready};
use crate::job::{BATCH, Job, PING, SMALL, Workload};
use crate::meter::{Figures, Meter, Stopwatch};

/// Kernel TCP with the kernel's defaults and `TCP_NODELAY`.
pub(super) struct Tcp;

impl Peer for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn workloads(&self) -> &'static [Workload] {
        &[Workload::Bulk, Workload::Each, Workload::Batch, Workload::Latency]
    }

    fn serve<'a>(&'a self, job: &'a Job) -> Side<'a> {
        Box::pin(async move {
            let listener = TcpListener::bind(LOCAL).await?;
            ready(&listener.local_addr()?.to_string())?;
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            if job.workload == Workload::Latency {
                answer(stream).await
            } else {
                receive(job, stream).await.map(Some)
            }
        })
    }

    fn run<'a>(&'a self, job: &'a Job, address: &'a str) -> Side<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            match job.workload {
                Workload::Bulk => send(stream, 128 << 10).await,
                Workload::Batch => send(stream, SMALL * BATCH).await,
                Workload::Each | Workload::Datagrams => send(stream, SMALL).await,
                Workload::Latency => ask(job, stream).await.map(Some),
            }
        })
    }
}

async fn receive(job: &Job, mut stream: TcpStream) -> anyhow::Result<Figures> {
    let (mut buffer, mut meter) = (vec![0; 256 << 10], Meter::new(job));
    loop {
        let length = stream.read(&mut buffer).await?;
        anyhow::ensure!(length > 0, "the sender has stopped too early");
        if let Some(figures) = meter.add(length) {
            return Ok(figures);
        }
    }
}

async fn send(mut stream: TcpStream, size: usize) -> anyhow::Result<Option<Figures>> {
    let contents = vec![0; size];
    loop {
        stream.write_all(&contents).await?;
    }
}

async fn answer(mut stream: TcpStream) -> anyhow::Result<Option<Figures>> {
    let mut buffer = [0; PING];
    loop {
        stream.read_exact(&mut buffer).await?;
        stream.write_all(&buffer).await?;
    }
}

async fn ask(job: &Job, mut stream: TcpStream) -> anyhow::Result<Figures> {
    let (mut buffer, mut stopwatch) = ([0; PING], Stopwatch::new(job));
    loop {
        let asked = Instant::now();
        stream.write_all(&buffer).await?;
        stream.read_exact(&mut buffer).await?;
        if let Some(figures) = stopwatch.answered(asked) {
            return Ok(figures);
        }
    }
}
