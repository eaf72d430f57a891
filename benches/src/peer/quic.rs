//! QUIC by quinn and by noq, whose interfaces differ by a few names.
//!
//! Both have their defaults, except for packets of 1,452 bytes from the start. Encryption is by aws-lc-rs.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use bytes::{Bytes, BytesMut};

use super::{LOCAL, Peer, Side, ready};
use crate::certificate::{address, identity, split};
use crate::job::{BATCH, BULK, Job, PING, SMALL, Workload};
use crate::meter::{Figures, Meter, Stopwatch};

const WORKLOADS: &[Workload] =
    &[Workload::Bulk, Workload::Each, Workload::Batch, Workload::Datagrams, Workload::Latency];

macro_rules! quic {
    ($module:ident, $peer:ident, $name:literal, $read_chunks:ident) => {
        #[doc = concat!("QUIC by ", $name, ".")]
        pub(super) struct $peer;

        impl Peer for $peer {
            fn name(&self) -> &'static str {
                $name
            }

            fn workloads(&self) -> &'static [Workload] {
                WORKLOADS
            }

            fn serve<'a>(&'a self, job: &'a Job) -> Side<'a> {
                Box::pin($module::serve(job))
            }

            fn run<'a>(&'a self, job: &'a Job, address: &'a str) -> Side<'a> {
                Box::pin($module::run(job, address))
            }
        }

        mod $module {
            use ::$module::{
                ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig,
            };

            use super::*;

            fn transport() -> Arc<TransportConfig> {
                let mut transport = TransportConfig::default();
                transport.initial_mtu(BULK as u16).mtu_discovery_config(None);
                Arc::new(transport)
            }

            pub(super) async fn serve(job: &Job) -> anyhow::Result<Option<Figures>> {
                let (key, certificate) = identity()?;
                let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
                config.transport_config(transport());
                let endpoint = Endpoint::server(config, LOCAL)?;
                ready(&address(endpoint.local_addr()?, &certificate))?;
                let connection = endpoint.accept().await.context("closed")?.await?;
                match job.workload {
                    Workload::Latency => answer(connection).await,
                    Workload::Datagrams => receive_datagrams(job, connection).await.map(Some),
                    _ => receive(job, connection.accept_uni().await?).await.map(Some),
                }
            }

            pub(super) async fn run(job: &Job, address: &str) -> anyhow::Result<Option<Figures>> {
                let (addr, roots) = split(address)?;
                let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
                config.transport_config(transport());
                let endpoint = Endpoint::client(LOCAL)?;
                let connection = endpoint.connect_with(config, addr, "localhost")?.await?;
                match job.workload {
                    Workload::Latency => ask(job, connection).await.map(Some),
                    Workload::Datagrams => send_datagrams(connection).await,
                    Workload::Bulk => send_bulk(connection.open_uni().await?).await,
                    Workload::Each => send(connection.open_uni().await?, SMALL).await,
                    Workload::Batch => send(connection.open_uni().await?, SMALL * BATCH).await,
                }
            }

            async fn receive(job: &Job, mut stream: RecvStream) -> anyhow::Result<Figures> {
                let mut meter = Meter::new(job);
                let mut chunks = [const { Bytes::new() }; 64];
                loop {
                    let count = stream
                        .$read_chunks(&mut chunks)
                        .await?
                        .context("the sender has stopped too early")?;
                    if let Some(figures) = meter.add(chunks[..count].iter().map(Bytes::len).sum()) {
                        return Ok(figures);
                    }
                }
            }

            async fn send_bulk(mut stream: SendStream) -> anyhow::Result<Option<Figures>> {
                let contents = Bytes::from(vec![0; 128 << 10]);
                loop {
                    stream.write_chunk(contents.clone()).await?;
                }
            }

            async fn send(mut stream: SendStream, size: usize) -> anyhow::Result<Option<Figures>> {
                let contents = vec![0; size];
                loop {
                    stream.write_all(&contents).await?;
                }
            }

            async fn receive_datagrams(job: &Job, connection: Connection) -> anyhow::Result<Figures> {
                let mut meter = Meter::new(job);
                loop {
                    let datagram = connection.read_datagram().await?;
                    meter.number(&datagram);
                    if let Some(figures) = meter.add(datagram.len()) {
                        return Ok(figures);
                    }
                }
            }

            async fn send_datagrams(connection: Connection) -> anyhow::Result<Option<Figures>> {
                let mut memory = BytesMut::new();
                for number in 0u64.. {
                    if memory.capacity() < SMALL {
                        memory = BytesMut::with_capacity(1 << 20);
                    }
                    memory.extend_from_slice(&number.to_be_bytes());
                    memory.resize(SMALL, 0);
                    connection.send_datagram_wait(memory.split().freeze()).await?;
                }
                Ok(None)
            }

            async fn answer(connection: Connection) -> anyhow::Result<Option<Figures>> {
                let (mut send, mut receive) = connection.accept_bi().await?;
                let mut buffer = [0; PING];
                loop {
                    receive.read_exact(&mut buffer).await?;
                    send.write_all(&buffer).await?;
                }
            }

            async fn ask(job: &Job, connection: Connection) -> anyhow::Result<Figures> {
                let (mut send, mut receive) = connection.open_bi().await?;
                let (mut buffer, mut stopwatch) = ([0; PING], Stopwatch::new(job));
                loop {
                    let asked = Instant::now();
                    send.write_all(&buffer).await?;
                    receive.read_exact(&mut buffer).await?;
                    if let Some(figures) = stopwatch.answered(asked) {
                        return Ok(figures);
                    }
                }
            }
        }
    };
}

quic!(quinn, Quinn, "quinn", read_chunks);
quic!(noq, Noq, "noq", read_many_chunks);
