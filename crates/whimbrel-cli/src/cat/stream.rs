//! Bytes, as one byte stream both ways.

use std::io::{self, Write};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use whimbrel::{CloseReason, Mocket, Stream};

use super::input::{Cut, read_messages};
use crate::output::output_error;

/// What one read takes at most.
const READ: usize = 1 << 16;
/// Opens the stream at the other end, which learns of it from its first byte.
const HELLO: u8 = b'w';

pub(super) async fn exchange(mocket: &Mocket) -> anyhow::Result<()> {
    // Both ends open one and take the other's: neither needs to know who listens.
    let mut out = mocket.open_stream().await?;
    out.write_all(&[HELLO]).await?;
    let sending = send_all(out);
    let receiving = async {
        let mut back = mocket.accept_stream().await?;
        if back.read_u8().await.context("the peer's byte stream does not begin: is it run with --bytes?")?
            != HELLO
        {
            bail!("the peer's byte stream is not one of whimbrel cat");
        }
        let (back, _unused) = tokio::io::split(back);
        receive_all(back).await
    };
    let (out, ()) = tokio::try_join!(sending, receiving)?;
    drop(out);
    match mocket.close(0, "").await {
        CloseReason::Local | CloseReason::Peer(_) => Ok(()),
        reason => bail!("not everything may have arrived: {reason}"),
    }
}

/// Gives the stream back: dropped, it would stop the peer's direction of it.
async fn send_all(out: Stream) -> anyhow::Result<(ReadHalf<Stream>, WriteHalf<Stream>)> {
    let (unused, mut out) = tokio::io::split(out);
    let mut input = read_messages(Cut::Anywhere);
    while let Some(bytes) = input.recv().await {
        out.write_all(&bytes.context("cannot read standard input")?).await?;
    }
    out.shutdown().await?;
    Ok((unused, out))
}

async fn receive_all(mut back: ReadHalf<Stream>) -> anyhow::Result<()> {
    let mut buffer = vec![0; READ];
    loop {
        let count = back.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&buffer[..count]).and_then(|()| out.flush()).map_err(output_error)?;
    }
}
