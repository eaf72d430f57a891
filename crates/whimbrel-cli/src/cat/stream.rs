//! Bytes, as one byte stream both ways.

use std::io::{self, Write};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{CloseReason, Mocket, Stream};

use super::course::Course;
use super::input::Input;
use crate::output::output_error;

/// As much as a stream hands out at once: what it keeps for the next read would not go with a session that leaves.
const READ: usize = 1 << 16;

/// Opens the stream at the other end, which learns of it from its first byte.
const HELLO: u8 = b'w';

pub(super) async fn exchange(mocket: &Mocket, input: &mut Input, course: &mut Course) -> anyhow::Result<()> {
    // Both ends open one and take the other's: neither needs to know who listens.
    let mut going = mocket.open_stream().await?;
    going.write_all(&[HELLO]).await?;
    let Course { said_all, heard_all, .. } = course;
    let sending = send_all(&mut going, input, said_all);
    let receiving = receive_all(mocket, heard_all);
    tokio::try_join!(sending, receiving)?;
    // Dropped before, it would stop the peer's direction of it.
    drop(going);
    match mocket.close(0, "").await {
        CloseReason::Local | CloseReason::Peer(_) => Ok(()),
        reason => bail!("not everything may have arrived: {reason}"),
    }
}

async fn send_all(out: &mut Stream, input: &mut Input, said_all: &mut bool) -> anyhow::Result<()> {
    if *said_all {
        return Ok(());
    }
    while let Some(bytes) = input.next().await.context("cannot read standard input")? {
        let count = out.write(bytes).await?;
        input.take_part(count);
    }
    out.shutdown().await?;
    *said_all = true;
    Ok(())
}

async fn receive_all(mocket: &Mocket, heard_all: &mut bool) -> anyhow::Result<()> {
    if *heard_all {
        return Ok(());
    }
    let mut back = mocket.accept_stream().await?;
    if back.read_u8().await.context("the peer's byte stream does not begin: is it run with --bytes?")?
        != HELLO
    {
        bail!("the peer's byte stream is not one of whimbrel cat");
    }
    let mut buffer = vec![0; READ];
    loop {
        // A stream that always has more must not keep us from sending, or from hearing signals.
        tokio::task::coop::consume_budget().await;
        let count = back.read(&mut buffer).await?;
        if count == 0 {
            *heard_all = true;
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&buffer[..count]).and_then(|()| out.flush()).map_err(output_error)?;
    }
}
