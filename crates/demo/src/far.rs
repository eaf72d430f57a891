//! The far end's process: accepts every connection and reports what arrived through it.

use tokio::io::AsyncReadExt;
use whimbrel::{Config, Endpoint, new_identity};
use whimbrel_cli::output::print_line;
use whimbrel_cli::process::{abort_all, interrupted};

use crate::receiver::receive;
use crate::report::Word;

/// Serves until standard input ends, which also happens when the near end dies.
pub(crate) async fn run() -> anyhow::Result<()> {
    let interrupted = interrupted()?;
    let endpoint = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr()?);
    say(&Word::Listening { url })?;
    let served = tokio::select! {
        served = serve(&endpoint) => served,
        () = orphaned() => Ok(()),
        _ = interrupted => Ok(()),
    };
    abort_all(&endpoint, "the demo is over").await;
    served
}

/// Prints one line for the near end.
pub(crate) fn say(word: &Word) -> anyhow::Result<()> {
    print_line(format_args!("{}", serde_json::to_string(word)?))
}

async fn serve(endpoint: &Endpoint) -> anyhow::Result<()> {
    while let Some(mocket) = endpoint.accept().await {
        tokio::spawn(async move {
            // This fails only if nobody reads any more, and then standard input ends too.
            drop(say(&Word::Report(receive(mocket).await)));
        });
    }
    anyhow::bail!("the far end's socket is gone")
}

async fn orphaned() {
    let mut input = tokio::io::stdin();
    while matches!(input.read(&mut [0; 64]).await, Ok(1..)) {}
}
