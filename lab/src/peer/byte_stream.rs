//! Jobs over any byte stream.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::source::Source;
use super::tally::Tally;
use crate::job::{Job, Sent};

/// Bytes of a write call for bulk data.
pub(super) const WRITE: usize = 64 << 10;

/// Writes the payload of `job`, and finishes the stream.
pub(super) async fn send(
    job: &Job,
    stream: &mut (impl AsyncWrite + Unpin),
    sent: &mut Sent,
) -> anyhow::Result<()> {
    match *job {
        Job::Bulk => bulk(u64::MAX, stream, sent).await?,
        Job::Transfer { bytes } => bulk(bytes, stream, sent).await?,
        Job::Messages { size, rate, count, .. } => {
            messages(Source::new(size, rate, count), stream, sent).await?;
        }
        Job::Frames { rate, count, .. } => messages(Source::of_frames(rate, count), stream, sent).await?,
    }
    Ok(stream.shutdown().await?)
}

async fn messages(
    mut source: Source,
    stream: &mut (impl AsyncWrite + Unpin),
    sent: &mut Sent,
) -> anyhow::Result<()> {
    while let Some(message) = source.next().await {
        stream.write_all(&message).await?;
        stream.flush().await?;
        sent.bytes += message.len() as u64;
        sent.messages += 1;
    }
    Ok(())
}

async fn bulk(bytes: u64, stream: &mut (impl AsyncWrite + Unpin), sent: &mut Sent) -> anyhow::Result<()> {
    let contents = [0x77; WRITE];
    while sent.bytes < bytes {
        let most = (bytes - sent.bytes).min(WRITE as u64) as usize;
        sent.bytes += stream.write(&contents[..most]).await? as u64;
    }
    Ok(stream.flush().await?)
}

/// Reads until the job is done. It is an error if the sender finishes before that.
pub(super) async fn receive(stream: &mut (impl AsyncRead + Unpin), tally: &mut Tally) -> anyhow::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    while !tally.is_done() {
        let length = stream.read(&mut buffer).await?;
        anyhow::ensure!(length > 0, "the sender finished before the job was done");
        tally.read(&buffer[..length]);
    }
    Ok(())
}

/// Waits until the other side has read everything and closed.
pub(super) async fn until_gone(stream: &mut (impl AsyncRead + Unpin)) {
    // An error means that the other side is gone too.
    while stream.read(&mut [0; 64]).await.is_ok_and(|length| length > 0) {}
}
