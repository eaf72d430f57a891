//! The exchange of bytes, as one byte stream in each direction.

use std::io;

use anyhow::{Context, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{Closed, Mocket, Stream, StreamId, StreamIoError};

use super::ending::{close, closing, early, say_written};
use super::input::Input;
use super::kind;
use super::progress::Progress;
use super::writer::Writer;

/// The most bytes read at once.
const READ: usize = 1 << 16;

pub(super) async fn exchange(
    mocket: &Mocket,
    input: &mut Input,
    output: &mut Writer,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let closing = closing(mocket);
    let Progress { out, said_all, heard_all, said_written, heard_written, .. } = progress;
    // Both ends open a stream and accept the other's, so neither needs to know which one listens.
    let mut going = match *out {
        Some(id) => mocket.stream(StreamId(id)),
        None => {
            let begun = async {
                kind::say_bytes(mocket).await?;
                anyhow::Ok(mocket.open_stream().await?)
            };
            // At the beginning this fails only if the peer has closed; the close gives the reason.
            let Ok(opened) = begun.await else { return Err(early(&mocket.closed().await)) };
            *out = Some(opened.id().0);
            Some(opened)
        }
    };
    let out = *out;
    let transfer = async {
        // If the peer closes, this end stops sending. It still receives what was written, and why the peer closed.
        let sending = async {
            tokio::select! {
                sent = send_all(going.as_mut(), input, said_all) => sent,
                () = closing => Ok(()),
            }
        };
        let receiving = async {
            receive_all(mocket, out, output, heard_all).await?;
            output.finish().await?;
            if !*said_written {
                say_written(mocket).await?;
                *said_written = true;
            }
            Ok(())
        };
        tokio::try_join!(sending, receiving, kind::expect_bytes(mocket, heard_written))
    };
    transfer.await?;
    // If the stream were dropped before, it would stop the peer's direction.
    drop(going);
    close(mocket, *said_all || input.is_idle()).await
}

/// The stream that the peer opens, now or while another process held the session.
async fn coming(mocket: &Mocket, out: Option<u64>) -> anyhow::Result<Stream> {
    let known = mocket.byte_streams().into_iter().find(|id| Some(id.0) != out);
    match known.and_then(|id| mocket.stream(id)) {
        Some(stream) => Ok(stream),
        None => mocket.accept_stream().await.map_err(|Closed(reason)| early(&reason)),
    }
}

async fn send_all(out: Option<&mut Stream>, input: &mut Input, said_all: &mut bool) -> anyhow::Result<()> {
    if *said_all {
        return Ok(());
    }
    let out = out.context("the peer has ended the byte stream")?;
    while let Some(bytes) = input.next().await.context("cannot read standard input")? {
        let count = match out.write(bytes).await {
            // The receiving side is told why the mocket is closed.
            Err(error) if is_closed(&error) => return Ok(()),
            written => written?,
        };
        input.take_part(count);
    }
    match out.shutdown().await {
        Err(error) if is_closed(&error) => return Ok(()),
        ended => ended?,
    }
    *said_all = true;
    Ok(())
}

async fn receive_all(
    mocket: &Mocket,
    out: Option<u64>,
    output: &mut Writer,
    heard_all: &mut bool,
) -> anyhow::Result<()> {
    if *heard_all {
        return Ok(());
    }
    let mut back = coming(mocket, out).await?;
    let mut buffer = vec![0; READ];
    while !*heard_all {
        // A stream that always has more data must not keep this task from sending or from handling signals.
        tokio::task::coop::consume_budget().await;
        // Received bytes are gathered before anything else is awaited, so that nothing is lost if the session leaves.
        let count = tokio::select! {
            biased;
            count = back.read(&mut buffer), if output.has_room() => count.map_err(why_short)?,
            handed = output.hand_over() => {
                handed?;
                continue;
            }
        };
        output.give(&buffer[..count])?;
        *heard_all = count == 0;
    }
    Ok(())
}

fn is_closed(error: &io::Error) -> bool {
    matches!(stream_error(error), Some(StreamIoError::Closed(_)))
}

/// The error for a stream that breaks off without its end.
fn why_short(error: io::Error) -> Error {
    match stream_error(&error) {
        Some(StreamIoError::Closed(reason)) => early(reason),
        _ => error.into(),
    }
}

fn stream_error(error: &io::Error) -> Option<&StreamIoError> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use whimbrel::{Config, Endpoint, new_identity};

    use super::super::input::Cut;
    use super::*;

    #[tokio::test]
    async fn an_input_that_ends_after_the_close_is_not_what_went_wrong() {
        let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
        let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
        let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
        let near = client.connect(&url).await.unwrap();
        let mut out = near.open_stream().await.unwrap();
        server.accept().await.unwrap().abort(1, "interrupted");
        near.closed().await;
        let (mut input, mut said_all) = (Input::of(Cut::Anywhere, b""), false);
        send_all(Some(&mut out), &mut input, &mut said_all).await.unwrap();
        assert!(!said_all);
    }
}
