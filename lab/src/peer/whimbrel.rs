//! Whimbrel, the transport that the laboratory is about.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use whimbrel::{
    CloseReason, Closed, Config, Congestion, Endpoint, Mocket, Repeats, Scheduling, Sender, Tag,
    TransportConfig, new_identity,
};

use super::side::{ready, receive, send, started};
use super::source::Source;
use super::tally::Tally;
use super::{IDLE, Peer, WINDOW, Work, anywhere, version};
use crate::job::{Figures, Job, Sent, Want};

/// Bytes of a message of bulk data.
const MESSAGE: usize = 8 << 10;
/// Messages that the receiving end takes at a time.
const MANY: usize = 256;
/// Tag of the messages that a newer one replaces.
const NEWEST: Tag = Tag(1);
/// Longest wait for the last packets to reach the other end.
const FAREWELL: Duration = Duration::from_millis(200);

/// Whimbrel with one of its congestion controllers.
pub(super) struct Whimbrel {
    pub(super) name: &'static str,
    pub(super) congestion: Congestion,
    /// Whether bulk data is one sequence of messages, or messages in any order.
    pub(super) sequenced: bool,
    /// Setting for messages in time, if it is not the default.
    pub(super) copies: Option<Copies>,
}

/// A setting that decides how often a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// Once, and again only if it is lost.
    Once,
    /// As often as it takes to be in time, whatever the cost in bytes.
    Deadline,
    /// On two paths, at an urgent priority.
    Urgent,
    /// On every path.
    Redundant,
    /// Without repair symbols.
    Unrepaired,
}

/// Priority at which messages also take a second path, the session's default `urgent_priority`.
const URGENT: u8 = 200;
/// Budget for two copies of everything, in percent of all bytes sent.
const ANY_BUDGET: u16 = 200;

impl Copies {
    fn set(self, transport: &mut TransportConfig) {
        match self {
            Self::Once => {
                transport.repeats = Repeats::Fixed(0);
                transport.deadline_budget = 0;
            }
            Self::Deadline => transport.deadline_budget = ANY_BUDGET,
            // The second path takes the place of repeats on one path.
            Self::Urgent => transport.repeats = Repeats::Fixed(0),
            Self::Redundant => transport.scheduler = Scheduling::Redundant,
            Self::Unrepaired => transport.repair_budget = 0,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Once => "repeats and deadline_budget 0",
            Self::Deadline => "deadline_budget 200 %",
            Self::Urgent => "repeats 0, messages at priority 200, which two paths carry",
            Self::Redundant => "scheduler Redundant",
            Self::Unrepaired => "repair_budget 0",
        }
    }
}

/// Whimbrel with the settings that most programs would use.
pub(super) const OURS: Whimbrel =
    Whimbrel { name: "whimbrel", congestion: Congestion::Gauge, sequenced: false, copies: None };

impl Peer for Whimbrel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn settings(&self) -> String {
        format!(
            "whimbrel {} with {:?}{}: windows of 32 MiB, patience of 5 minutes with silence and of 2 with the handshake, else \
             defaults; bulk in messages of 8 KiB, reliable and {}; a transfer is such messages in order, the \
             first with the handshake's third packet; messages in order are `rs`, each at once `ru`, the newest only `rs` by replace, \
             within a time, and frames, `ru` with that lifetime; where there are several links both sides are bound to no \
             address, and find theirs",
            version::of_crate("whimbrel"),
            self.congestion,
            self.copies.map_or(String::new(), |copies| format!(", {}", copies.words())),
            if self.sequenced { "sequenced" } else { "unsequenced" },
        )
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn can(&self, job: &Job) -> bool {
        match (self.sequenced, self.copies) {
            (true, _) => *job == Job::Bulk,
            (_, Some(_)) => matches!(job, Job::Messages { .. } | Job::Frames { .. }),
            _ => true,
        }
    }

    fn is_special(&self) -> bool {
        self.copies.is_some()
    }

    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures> {
        Box::pin(async move {
            let config = Config::listen_as(new_identity()).transport(self.transport());
            let endpoint = Endpoint::bind(config, &SocketAddr::new(anywhere(at), 0).to_string()).await?;
            let address = SocketAddr::new(at[0], endpoint.local_addr()?.port());
            ready(&format!("whimbrel://{}@{address}", endpoint.public_key()))?;
            receive(job, async |tally| {
                let mocket = endpoint.accept().await.context("the endpoint has closed")?;
                messages(&mocket, tally).await?;
                mocket.begin_close(0, "done");
                tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await.ok();
                Ok(())
            })
            .await
        })
    }

    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent> {
        Box::pin(send(async move |sent| {
            let config = Config::default().transport(self.transport());
            let endpoint = Endpoint::bind(config, &SocketAddr::new(anywhere(from), 0).to_string()).await?;
            started()?;
            let mocket = endpoint.begin_connect(to).await?;
            match *job {
                Job::Bulk => send_bytes(&self.bulk(&mocket), u64::MAX, sent).await?,
                Job::Transfer { bytes } => send_bytes(&mocket.sender().build(), bytes, sent).await?,
                Job::Messages { size, rate, count, want } => {
                    mocket.established().await?;
                    self.send_messages(&mocket, Source::new(size, rate, count), want, sent).await?;
                }
                Job::Frames { rate, count, within, .. } => {
                    mocket.established().await?;
                    let frames = Source::of_frames(rate, count);
                    self.send_messages(&mocket, frames, Want::Within(within), sent).await?;
                }
            }
            // A close before the handshake is complete would discard what was sent.
            mocket.established().await?;
            // This delivers what was sent, and returns once the other end has received everything.
            mocket.close(0, "done").await;
            Ok(())
        }))
    }
}

impl Whimbrel {
    pub(super) fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        transport.congestion = self.congestion;
        transport.idle_timeout = IDLE;
        transport.handshake_timeout = Duration::from_secs(120);
        transport.close_timeout = IDLE;
        transport.session.session_window = 2 * WINDOW;
        transport.session.stream_window = WINDOW;
        transport.session.stream_send_buffer = WINDOW;
        self.copies.into_iter().for_each(|copies| copies.set(&mut transport));
        transport
    }

    /// Sends messages as they come due.
    pub(super) async fn send_messages(
        &self,
        mocket: &Mocket,
        mut source: Source,
        want: Want,
        sent: &mut Sent,
    ) -> anyhow::Result<()> {
        let sender = self.sender(mocket, want);
        while let Some(message) = source.next().await {
            sent.bytes += message.len() as u64;
            sent.messages += 1;
            match want {
                Want::Newest => sender.replace(message)?,
                _ => sender.send(message).await?,
            }
        }
        Ok(())
    }

    fn sender(&self, mocket: &Mocket, want: Want) -> Sender {
        let mut sender = mocket.sender();
        if self.copies == Some(Copies::Urgent) {
            sender = sender.priority(URGENT);
        }
        match want {
            Want::Ordered => sender.build(),
            Want::Each => sender.unsequenced().build(),
            Want::Newest => sender.tag(NEWEST).build(),
            Want::Within(ms) => sender.unsequenced().lifetime(Duration::from_millis(ms)).build(),
        }
    }

    fn bulk(&self, mocket: &Mocket) -> Sender {
        let sender = mocket.sender();
        if self.sequenced { sender.build() } else { sender.unsequenced().build() }
    }
}

async fn send_bytes(sender: &Sender, bytes: u64, sent: &mut Sent) -> anyhow::Result<()> {
    let contents = Bytes::from_static(&[0x77; MESSAGE]);
    while sent.bytes < bytes {
        let length = (bytes - sent.bytes).min(MESSAGE as u64);
        sender.send(contents.slice(..length as usize)).await?;
        sent.bytes += length;
        sent.messages += 1;
    }
    Ok(())
}

async fn messages(mocket: &Mocket, tally: &mut Tally) -> anyhow::Result<()> {
    let mut messages = Vec::with_capacity(MANY);
    while !tally.is_done() {
        messages.clear();
        match mocket.recv_many(&mut messages, MANY).await {
            Ok(_) => {}
            // The caller has closed, so no more of the messages with a lifetime will come.
            Err(Closed(CloseReason::Peer { .. })) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for message in &messages {
            tally.message(&message.payload);
        }
    }
    Ok(())
}
