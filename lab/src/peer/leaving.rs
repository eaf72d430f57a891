//! A caller of ours that leaves: it suspends its session, and another process, at another address, goes on with it.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use whimbrel::{Config, Endpoint, Identity, SuspendMode, SuspendedMocket, new_identity};

use super::hex;
use super::side::{self, send, started};
use super::source::Source;
use super::whimbrel::OURS;
use crate::clock;
use crate::job::{Job, Sent};

/// What the one that leaves prints in the end; the next one's standard input begins with its state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Left {
    /// When it called suspend, nanoseconds of [`crate::clock`].
    pub(crate) called: u64,
    /// When it had the session as bytes.
    pub(crate) suspended: u64,
    /// How many those were.
    pub(crate) bytes: usize,
    /// The identity's secret and the session, in hexadecimal digits.
    pub(crate) state: String,
}

/// What both callers are told.
#[derive(clap::Args)]
struct Share {
    #[arg(long)]
    job: String,
    #[arg(long)]
    from: IpAddr,
    /// How many messages the first one sends
    #[arg(long)]
    messages: u64,
}

/// The first caller: sends the first messages of a job and suspends.
#[derive(clap::Args)]
pub(crate) struct Leave {
    #[command(flatten)]
    share: Share,
    to: String,
}

/// The second caller: resumes and sends the rest.
#[derive(clap::Args)]
pub(crate) struct Arrive {
    #[command(flatten)]
    share: Share,
}

impl Leave {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("left", self.leave())
    }

    async fn leave(self) -> anyhow::Result<Left> {
        let Share { job, from, messages } = self.share;
        let Job::Messages { size, rate, want, .. } = Job::from_json(&job)? else {
            bail!("no messages: {job}")
        };
        let identity = new_identity();
        let secret = *identity.secret();
        let endpoint = bind(identity, from).await?;
        started()?;
        let mocket = endpoint.connect(&self.to).await?;
        let first = Source::new(size, rate, messages);
        OURS.send_messages(&mocket, first, want, &mut Sent::default()).await?;
        let called = clock::now();
        let state = mocket.suspend(SuspendMode::Snapshot).await?.to_bytes();
        let suspended = clock::now();
        Ok(Left { called, suspended, bytes: state.len(), state: hex::digits(secret.iter().chain(&state)) })
    }
}

impl Arrive {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut state = String::new();
        std::io::stdin().read_line(&mut state)?;
        side::run("sent", self.arrive(state))
    }

    async fn arrive(self, state: String) -> anyhow::Result<Sent> {
        let Share { job, from, messages } = self.share;
        let Job::Messages { size, rate, count, want } = Job::from_json(&job)? else {
            bail!("no messages: {job}")
        };
        let bytes = hex::bytes(state.trim())?;
        let (secret, session) = bytes.split_first_chunk().context("the state is cut short")?;
        let state = SuspendedMocket::from_bytes(session)?;
        let endpoint = bind(Identity::from_secret(*secret), from).await?;
        send(async move |sent| {
            started()?;
            let mocket = endpoint.resume(&state, None).await?;
            let rest = Source::new(size, rate, count).starting_at(messages);
            OURS.send_messages(&mocket, rest, want, sent).await?;
            mocket.close(0, "done").await;
            Ok(())
        })
        .await
    }
}

async fn bind(identity: Identity, from: IpAddr) -> anyhow::Result<Endpoint> {
    let config = Config::default().identity(identity).transport(OURS.transport());
    Ok(Endpoint::bind(config, &SocketAddr::new(from, 0).to_string()).await?)
}
