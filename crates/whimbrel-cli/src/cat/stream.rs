//! Bytes, as one byte stream both ways.

use std::io::{self, Write};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{CloseReason, Mocket, Stream, StreamId};

use super::course::Course;
use super::input::Input;
use super::kind;
use super::out::Out;
use crate::output::output_error;

/// Bytes read at once.
const READ: usize = 1 << 16;

pub(super) async fn exchange(mocket: &Mocket, input: &mut Input, course: &mut Course) -> anyhow::Result<()> {
    let Course { out, said_all, heard_all, .. } = course;
    // Both ends open one and take the other's: neither needs to know who listens.
    let mut going = match *out {
        Some(id) => mocket.stream(StreamId(id)),
        None => {
            kind::say_bytes(mocket).await?;
            let opened = mocket.open_stream().await?;
            *out = Some(opened.id().0);
            Some(opened)
        }
    };
    let sending = send_all(going.as_mut(), input, said_all);
    let receiving = receive_all(mocket, *out, heard_all);
    tokio::select! {
        exchanged = async { tokio::try_join!(sending, receiving) } => drop(exchanged?),
        never = kind::expect_bytes(mocket) => match never? {},
    }
    // Dropped before, it would stop the peer's direction of it.
    drop(going);
    match mocket.close(0, "").await {
        CloseReason::Local | CloseReason::Peer(_) => Ok(()),
        reason => bail!("not everything may have arrived: {reason}"),
    }
}

/// The stream that the peer opened, now or while another process held the session.
async fn coming(mocket: &Mocket, out: Option<u64>) -> anyhow::Result<Stream> {
    let known = mocket.byte_streams().into_iter().find(|id| Some(id.0) != out);
    match known.and_then(|id| mocket.stream(id)) {
        Some(stream) => Ok(stream),
        None => Ok(mocket.accept_stream().await?),
    }
}

async fn send_all(out: Option<&mut Stream>, input: &mut Input, said_all: &mut bool) -> anyhow::Result<()> {
    if *said_all {
        return Ok(());
    }
    let out = out.context("the peer has ended the byte stream")?;
    while let Some(bytes) = input.next().await.context("cannot read standard input")? {
        let count = out.write(bytes).await?;
        input.take_part(count);
    }
    out.shutdown().await?;
    *said_all = true;
    Ok(())
}

async fn receive_all(mocket: &Mocket, out: Option<u64>, heard_all: &mut bool) -> anyhow::Result<()> {
    if *heard_all {
        return Ok(());
    }
    let mut back = coming(mocket, out).await?;
    let (mut buffer, mut shown) = (vec![0; READ], Out::standard());
    loop {
        // A stream that always has more must not keep us from sending, or from hearing signals.
        tokio::task::coop::consume_budget().await;
        let count = back.read(&mut buffer).await?;
        if count == 0 {
            *heard_all = true;
            return Ok(());
        }
        let mut out = io::stdout().lock();
        shown.write(&mut out, &buffer[..count]).and_then(|()| out.flush()).map_err(output_error)?;
    }
}
