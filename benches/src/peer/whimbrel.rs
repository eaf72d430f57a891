//! Whimbrel, with the defaults of the library except for packets of 1,452 bytes.

use std::time::Instant;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use whimbrel::{Batch, Config, Endpoint, Mocket, new_identity};

use super::{LOCAL, Peer, Side, ready};
use crate::job::{BATCH, BULK, Job, PING, SMALL, Workload};
use crate::meter::{Figures, Meter, Stopwatch};

const WORKLOADS: &[Workload] =
    &[Workload::Bulk, Workload::Each, Workload::Batch, Workload::Datagrams, Workload::Latency];
/// The most messages that one receive call returns.
const MANY: usize = 256;

/// Whimbrel.
pub(super) struct Whimbrel;

impl Peer for Whimbrel {
    fn name(&self) -> &'static str {
        "whimbrel"
    }

    fn workloads(&self) -> &'static [Workload] {
        WORKLOADS
    }

    fn serve<'a>(&'a self, job: &'a Job) -> Side<'a> {
        Box::pin(serve(job))
    }

    fn run<'a>(&'a self, job: &'a Job, address: &'a str) -> Side<'a> {
        Box::pin(run(job, address))
    }
}

fn with_packets_of(mut config: Config) -> Config {
    config.transport.max_udp_payload = BULK as u16;
    config
}

async fn serve(job: &Job) -> anyhow::Result<Option<Figures>> {
    let config = with_packets_of(Config::listen_as(new_identity()));
    let endpoint = Endpoint::bind(config, &LOCAL.to_string()).await?;
    ready(&format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr()?))?;
    let mocket = endpoint.accept().await.context("closed")?;
    match job.workload {
        Workload::Latency => answer(mocket).await,
        _ => receive(job, mocket).await.map(Some),
    }
}

async fn run(job: &Job, address: &str) -> anyhow::Result<Option<Figures>> {
    let endpoint = Endpoint::bind(with_packets_of(Config::default()), &LOCAL.to_string()).await?;
    let mocket = endpoint.connect(address).await?;
    match job.workload {
        Workload::Latency => ask(job, mocket).await.map(Some),
        Workload::Bulk => send_bulk(mocket).await,
        Workload::Each => send_each(mocket).await,
        Workload::Batch => send_batches(mocket).await,
        Workload::Datagrams => send_datagrams(mocket).await,
    }
}

async fn receive(job: &Job, mocket: Mocket) -> anyhow::Result<Figures> {
    let mut meter = Meter::new(job);
    let mut messages = Batch::new();
    loop {
        mocket.recv_batch(&mut messages, MANY).await?;
        for message in messages.iter() {
            if job.workload == Workload::Datagrams {
                meter.number(message.payload);
            }
        }
        if let Some(figures) = meter.add(messages.iter().map(|message| message.payload.len()).sum()) {
            return Ok(figures);
        }
    }
}

async fn send_bulk(mocket: Mocket) -> anyhow::Result<Option<Figures>> {
    let contents = Bytes::from(vec![0; 128 << 10]);
    loop {
        mocket.send(contents.clone()).await?;
    }
}

async fn send_each(mocket: Mocket) -> anyhow::Result<Option<Figures>> {
    let contents = Bytes::from_static(&[0; SMALL]);
    loop {
        mocket.send(contents.clone()).await?;
    }
}

async fn send_batches(mocket: Mocket) -> anyhow::Result<Option<Figures>> {
    let contents = Bytes::from_static(&[0; SMALL]);
    let sender = mocket.sender().build();
    loop {
        sender.send_many(std::iter::repeat_n(contents.clone(), BATCH)).await?;
    }
}

async fn send_datagrams(mocket: Mocket) -> anyhow::Result<Option<Figures>> {
    let sender = mocket.sender().unreliable().unsequenced().build();
    let mut memory = BytesMut::new();
    for number in 0u64.. {
        if memory.capacity() < SMALL {
            memory = BytesMut::with_capacity(1 << 20);
        }
        memory.extend_from_slice(&number.to_be_bytes());
        memory.resize(SMALL, 0);
        sender.send(memory.split().freeze()).await?;
    }
    Ok(None)
}

async fn answer(mocket: Mocket) -> anyhow::Result<Option<Figures>> {
    loop {
        let message = mocket.recv().await?;
        mocket.send(message.payload).await?;
    }
}

async fn ask(job: &Job, mocket: Mocket) -> anyhow::Result<Figures> {
    let (contents, mut stopwatch) = (Bytes::from(vec![0; PING]), Stopwatch::new(job));
    loop {
        let asked = Instant::now();
        mocket.send(contents.clone()).await?;
        mocket.recv().await?;
        if let Some(figures) = stopwatch.answered(asked) {
            return Ok(figures);
        }
    }
}
