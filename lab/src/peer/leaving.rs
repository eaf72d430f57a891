//! A caller of ours that suspends its session, and another one that resumes it in a new process, at another address.

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

/// Output of the caller that leaves. The next caller's standard input begins with its `state`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Left {
    /// Time of its suspend call, in nanoseconds of [`crate::clock`].
    pub(crate) called: u64,
    /// Time at which it had the session as bytes.
    pub(crate) suspended: u64,
    /// Size of the suspended session in bytes.
    pub(crate) bytes: usize,
    /// Secret of the identity and suspended session, in hexadecimal digits.
    pub(crate) state: String,
}

/// Arguments of both callers.
#[derive(clap::Args)]
struct Share {
    #[arg(long)]
    job: String,
    #[arg(long)]
    from: IpAddr,
    /// Number of messages that the first caller sends
    #[arg(long)]
    messages: u64,
}

/// The first caller. It sends the first messages of a job and suspends its session.
#[derive(clap::Args)]
pub(crate) struct Leave {
    #[command(flatten)]
    share: Share,
    to: String,
}

/// The second caller. It resumes the session and sends the rest.
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
            bail!("not a job with messages: {job}")
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
            bail!("not a job with messages: {job}")
        };
        let bytes = hex::bytes(state.trim())?;
        let (secret, session) = bytes.split_first_chunk().context("the state is incomplete")?;
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
