//! QUIC by quinn and by noq, whose APIs differ in a few names.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::{JoinError, JoinSet};

use super::pieces::{self, Pieces};
use super::side::{ready, receive, send, started};
use super::source::Source;
use super::tally::Tally;
use super::{IDLE, Peer, WINDOW, Work, anywhere, byte_stream, certificate, version};
use crate::job::{Figures, Job, Sent, Want};

/// Streams that may be open at a time, enough that no message waits for another's end.
const STREAMS: u32 = 1 << 16;
/// Round trips after which a message without an acknowledgement counts as lost, once a newer one has been sent.
const OVERDUE: f64 = 1.5;
/// Longest wait for the last packets to reach the other end.
const FAREWELL: Duration = Duration::from_millis(200);

/// Time for the last datagrams to arrive, which are not acknowledged to the program.
const LINGER: Duration = Duration::from_secs(1);

macro_rules! quic {
    ($module:ident, $peer:ident, $what:literal, $links:literal, $rtt:expr, $several:expr, $bind:expr, $open:expr) => {
        #[doc = concat!("QUIC by ", $what, " with one of its congestion controllers.")]
        pub(super) struct $peer {
            pub(super) name: &'static str,
            /// Name and constructor of the congestion controller.
            pub(super) congestion: (&'static str, fn() -> $module::Factory),
        }

        impl Peer for $peer {
            fn name(&self) -> &'static str {
                self.name
            }

            fn settings(&self) -> String {
                format!(
                    "{} {} (aws-lc-rs; {}) with {}: windows of 32 MiB, {STREAMS} streams, patience of 5 minutes with silence, else \
                     defaults, path MTU discovery among them; bulk, transfers and messages in order are one stream; other messages \
                     one stream each, which is reset when its time is over, or, where only the newest counts, when something newer \
                     is sent and no acknowledgement has come in 1.5 round trips; frames in datagrams (RFC 9221){}",
                    $what,
                    version::of_crate($what),
                    certificate::SETTINGS,
                    self.congestion.0,
                    $links
                )
            }

            fn missing(&self) -> Option<String> {
                None
            }

            fn can(&self, _: &Job) -> bool {
                true
            }

            fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures> {
                Box::pin($module::serve((self.congestion.1)(), job, at))
            }

            fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent> {
                Box::pin($module::call((self.congestion.1)(), job, from, to))
            }
        }

        pub(super) mod $module {
            use ::$module::congestion::ControllerFactory;
            use ::$module::{
                ClientConfig, Connection, ConnectionError, Endpoint, IdleTimeout, ReadToEndError, SendStream, ServerConfig, TransportConfig,
                VarInt,
            };

            use super::*;

            /// Factory of congestion controllers.
            pub(in super::super) type Factory = Arc<dyn ControllerFactory + Send + Sync>;

            fn transport(congestion: Factory, links: usize) -> anyhow::Result<Arc<TransportConfig>> {
                let mut transport = TransportConfig::default();
                transport
                    .congestion_controller_factory(congestion)
                    .max_idle_timeout(Some(IdleTimeout::try_from(IDLE)?))
                    .max_concurrent_uni_streams(STREAMS.into())
                    .stream_receive_window(VarInt::from_u64(WINDOW)?)
                    .receive_window(VarInt::from_u64(WINDOW)?)
                    .send_window(WINDOW);
                let several: fn(&mut TransportConfig, usize) = $several;
                several(&mut transport, links);
                Ok(Arc::new(transport))
            }

            pub(super) async fn serve(congestion: Factory, job: &Job, at: &[IpAddr]) -> anyhow::Result<Figures> {
                let (key, certificate) = certificate::new()?;
                let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
                config.transport_config(transport(congestion, at.len())?);
                let endpoint = Endpoint::server(config, SocketAddr::new(at[0], 0))?;
                ready(&certificate::word(endpoint.local_addr()?, &certificate))?;
                receive(job, async |tally| {
                    let connection = endpoint.accept().await.context("the endpoint has closed")?.await?;
                    match *job {
                        Job::Messages { size, want, .. } if want != Want::Ordered => {
                            messages(&connection, size, tally).await?;
                        }
                        Job::Frames { .. } => frames(&connection, tally).await?,
                        _ => byte_stream::receive(&mut connection.accept_uni().await?, tally).await?,
                    }
                    connection.close(0u32.into(), b"done");
                    tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await.ok();
                    Ok(())
                })
                .await
            }

            pub(super) async fn call(congestion: Factory, job: &Job, from: &[IpAddr], to: &str) -> anyhow::Result<Sent> {
                send(async move |sent| {
                    let (to, roots) = certificate::split(to)?;
                    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
                    config.transport_config(transport(congestion, from.len())?);
                    let endpoint = Endpoint::client(SocketAddr::new($bind(from), 0))?;
                    started()?;
                    let connection = endpoint.connect_with(config, to, certificate::NAME)?.await?;
                    let open: fn(&Connection, &[IpAddr], SocketAddr) = $open;
                    open(&connection, from, to);
                    match *job {
                        Job::Messages { size, rate, count, want } if want != Want::Ordered => {
                            let source = Source::new(size, rate, count);
                            send_messages(&connection, source, want, sent).await?;
                            if matches!(want, Want::Within(_)) {
                                // The server cannot know that no more messages will come.
                                connection.close(0u32.into(), b"done");
                            }
                        }
                        Job::Frames { rate, count, .. } => {
                            send_frames(&connection, Source::of_frames(rate, count), sent).await?;
                            tokio::time::sleep(LINGER).await;
                            connection.close(0u32.into(), b"done");
                        }
                        _ => byte_stream::send(job, &mut connection.open_uni().await?, sent).await?,
                    }
                    connection.closed().await;
                    endpoint.wait_idle().await;
                    Ok(())
                })
                .await
            }

            /// Reads a message from each stream, until all have arrived or the caller has closed.
            async fn messages(connection: &Connection, size: usize, tally: &mut Tally) -> anyhow::Result<()> {
                let mut reading = JoinSet::new();
                while !tally.is_done() {
                    tokio::select! {
                        stream = connection.accept_uni() => {
                            let mut stream = match stream {
                                Ok(stream) => stream,
                                Err(ConnectionError::ApplicationClosed(_)) => break,
                                Err(error) => return Err(error.into()),
                            };
                            reading.spawn(async move { stream.read_to_end(size).await });
                        }
                        Some(read) = reading.join_next() => {
                            note(read, tally);
                        }
                    }
                }
                while let Some(read) = reading.join_next().await {
                    note(read, tally);
                }
                Ok(())
            }

            /// Puts frames together until all have arrived or the caller has closed.
            async fn frames(connection: &Connection, tally: &mut Tally) -> anyhow::Result<()> {
                let mut frames = Pieces::default();
                while !tally.is_done() {
                    match connection.read_datagram().await {
                        Ok(datagram) => drop(frames.take(&datagram).map(|frame| tally.message(&frame))),
                        Err(ConnectionError::ApplicationClosed(_)) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(())
            }

            async fn send_frames(connection: &Connection, mut source: Source, sent: &mut Sent) -> anyhow::Result<()> {
                while let Some(frame) = source.next().await {
                    let longest = connection.max_datagram_size().context("the server takes no datagrams")?;
                    for datagram in pieces::cut(&frame, longest) {
                        connection.send_datagram(datagram)?;
                    }
                    sent.bytes += frame.len() as u64;
                    sent.messages += 1;
                }
                Ok(())
            }

            fn note(read: Result<Result<Vec<u8>, ReadToEndError>, JoinError>, tally: &mut Tally) {
                // A stream that was reset holds no message.
                if let Ok(Ok(message)) = read {
                    tally.message(&message);
                }
            }

            /// Sends each message on a stream of its own, and waits until all of them are acknowledged or given up.
            async fn send_messages(
                connection: &Connection,
                mut source: Source,
                want: Want,
                sent: &mut Sent,
            ) -> anyhow::Result<()> {
                let (mut waiting, mut older) = (JoinSet::new(), VecDeque::new());
                while let Some(message) = source.next().await {
                    let mut stream = connection.open_uni().await?;
                    stream.write_all(&message).await?;
                    stream.finish()?;
                    sent.bytes += message.len() as u64;
                    sent.messages += 1;
                    match want {
                        Want::Newest => {
                            let rtt: fn(&Connection) -> Duration = $rtt;
                            give_up(&mut older, rtt(connection).mul_f64(OVERDUE));
                            older.push_back((Instant::now(), stream));
                        }
                        Want::Within(ms) => {
                            waiting.spawn(until_over(stream, Some(Duration::from_millis(ms))));
                        }
                        Want::Ordered | Want::Each => {
                            waiting.spawn(until_over(stream, None));
                        }
                    }
                    while waiting.try_join_next().is_some() {}
                }
                if let Some((_, newest)) = older.pop_back() {
                    until_over(newest, None).await;
                }
                while waiting.join_next().await.is_some() {}
                Ok(())
            }

            /// Resets streams whose acknowledgement is overdue.
            fn give_up(older: &mut VecDeque<(Instant, SendStream)>, overdue: Duration) {
                while let Some((_, mut stream)) = older.pop_front_if(|(written, _)| written.elapsed() > overdue) {
                    // A stream that was acknowledged already needs no reset.
                    stream.reset(0u32.into()).ok();
                }
            }

            /// Waits until the whole stream was acknowledged. Resets it when its time is over.
            async fn until_over(mut stream: SendStream, time: Option<Duration>) {
                match time {
                    None => drop(stream.stopped().await),
                    Some(time) => {
                        if tokio::time::timeout(time, stream.stopped()).await.is_err() {
                            stream.reset(0u32.into()).ok();
                        }
                    }
                }
            }
        }
    };
}

quic!(
    quinn,
    Quinn,
    "quinn",
    "",
    |connection| connection.rtt(),
    |_, _| {},
    (|from: &[IpAddr]| from[0]),
    |_, _, _| {}
);
quic!(
    noq,
    Noq,
    "noq",
    "; where there are several links, a path from each to the server's first address, open to data",
    |connection| connection.rtt(::noq::PathId::ZERO).unwrap_or_default(),
    |transport, links| {
        // The extension is offered only if there are several links to use it on.
        if links > 1 {
            transport.max_concurrent_multipath_paths(links as u32 + 1);
        }
    },
    anywhere,
    |connection, from, to| {
        for local in from.iter().skip(1).copied() {
            let connection = connection.clone();
            tokio::spawn(async move { open_path(&connection, local, to).await });
        }
    }
);

/// Wait before a path is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Opens a path from `local` as soon as the other side has issued connection IDs for it.
async fn open_path(connection: &::noq::Connection, local: IpAddr, to: SocketAddr) {
    while connection.close_reason().is_none() {
        let path = ::noq::FourTuple::new(to, Some(local));
        if connection.open_path(path, ::noq::PathStatus::Available).await.is_ok() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
