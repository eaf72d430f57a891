//! Lines or pieces, as messages both ways.

use std::io::{self, Write};

use anyhow::{Context, bail};
use bytes::Bytes;
use whimbrel::{CloseReason, Event, Message, Mocket};

use super::command::CatOptions;
use super::course::Course;
use super::input::{Cut, Input};
use super::kind;
use super::out::Out;
use crate::output::output_error;

/// Messages taken from the mocket at once.
const TAKE: usize = 256;
/// Protocol identifier of the empty message that says that an end's input has ended.
const END: u32 = 1;

pub(super) async fn exchange(
    mocket: &Mocket,
    how: &CatOptions,
    input: &mut Input,
    course: &mut Course,
) -> anyhow::Result<()> {
    let mut events = mocket.subscribe();
    let peer_closing = async move {
        loop {
            match events.recv().await {
                Ok(Event::PeerClosing(_) | Event::Closed(_))
                | Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                _ => {}
            }
        }
    };
    let Course { said_all, heard_all, .. } = course;
    let sending = send_all(mocket, how, input, said_all);
    let receiving = receive_all(mocket, how.cut(), heard_all);
    // Who has heard the peer's end has nothing to receive any more; who was left need not go on sending.
    let sending = async {
        tokio::select! {
            sent = sending => sent,
            () = peer_closing => Ok(()),
        }
    };
    tokio::select! {
        exchanged = async { tokio::try_join!(sending, receiving) } => drop(exchanged?),
        never = kind::expect_messages(mocket) => match never? {},
    }
    match mocket.close(0, "").await {
        CloseReason::Local | CloseReason::Peer(_) => Ok(()),
        reason => bail!("not everything may have arrived: {reason}"),
    }
}

async fn send_all(
    mocket: &Mocket,
    how: &CatOptions,
    input: &mut Input,
    said_all: &mut bool,
) -> anyhow::Result<()> {
    if *said_all {
        return Ok(());
    }
    let sender = how.sender(mocket);
    while let Some(message) = input.next().await.context("cannot read standard input")? {
        sender.send(Bytes::copy_from_slice(message)).await?;
        input.take();
    }
    wait_until_resolved(mocket).await;
    mocket.sender().ppid(END).build().send("").await?;
    *said_all = true;
    Ok(())
}

/// The end has to come after all else, whatever the services.
async fn wait_until_resolved(mocket: &Mocket) {
    const POLL: std::time::Duration = std::time::Duration::from_millis(2);
    loop {
        let session = mocket.stats().session;
        if session.queue_messages == 0 && session.outstanding == 0 {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            _ = mocket.closed() => return,
        }
    }
}

async fn receive_all(mocket: &Mocket, cut: Cut, heard_all: &mut bool) -> anyhow::Result<()> {
    if *heard_all {
        return Ok(());
    }
    let mut batch = Vec::with_capacity(TAKE);
    let mut out = Out::standard();
    loop {
        match mocket.recv_many(&mut batch, TAKE).await {
            Ok(_) => {}
            Err(closed) if matches!(closed.0, CloseReason::Peer(_) | CloseReason::Local) => return Ok(()),
            Err(closed) => return Err(closed.into()),
        }
        if batch.iter().any(kind::says_bytes) {
            return kind::refuse(mocket);
        }
        write_all(&mut out, &batch, cut).map_err(output_error)?;
        *heard_all = batch.iter().any(is_end);
        batch.clear();
        if *heard_all {
            return Ok(());
        }
    }
}

fn is_end(message: &Message) -> bool {
    message.ppid == Some(END) && message.payload.is_empty()
}

fn write_all(shown: &mut Out, batch: &[Message], cut: Cut) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for message in batch.iter().filter(|message| !is_end(message)) {
        shown.write(&mut out, &message.payload)?;
        if cut == Cut::Lines {
            shown.end(&mut out)?;
            out.write_all(b"\n")?;
        }
    }
    out.flush()
}
