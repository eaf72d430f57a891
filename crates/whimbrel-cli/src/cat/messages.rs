//! The exchange of lines or pieces as messages in both directions.

use std::io;

use anyhow::Context;
use bytes::Bytes;
use whimbrel::{CloseReason, Closed, Message, Mocket, SendError};

use super::ending::{close, closing, early, is_polite, say_written, says_written};
use super::input::{Cut, Input};
use super::kind;
use super::options::CatOptions;
use super::progress::Progress;
use super::writer::Writer;

/// The most messages taken from the mocket at once.
const TAKE: usize = 256;
/// The protocol identifier of the empty message that says that an end's input has ended.
const END: u32 = 1;

pub(super) async fn exchange(
    mocket: &Mocket,
    how: &CatOptions,
    input: &mut Input,
    output: &mut Writer,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let closing = closing(mocket);
    let Progress { said_all, heard_all, said_written, heard_written, .. } = progress;
    let transfer = async {
        // If the peer closes, this end stops sending. It still receives what was sent, and why the peer closed.
        let sending = async {
            tokio::select! {
                sent = send_all(mocket, how, input, said_all) => sent,
                () = closing => Ok(()),
            }
        };
        let receiving = async {
            receive_all(mocket, how.cut(), output, heard_all, heard_written).await?;
            output.finish().await?;
            if !*said_written {
                say_written(mocket).await?;
                *said_written = true;
            }
            hear_written(mocket, heard_written).await
        };
        tokio::try_join!(sending, receiving)
    };
    tokio::select! {
        exchanged = transfer => drop(exchanged?),
        never = kind::expect_messages(mocket) => match never? {},
    }
    // A peer that did not report the end closed gracefully without `cat`'s protocol. It may end before our input, but
    // not before what was read of it.
    close(mocket, *said_all || input.is_idle()).await
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
        match sender.send(Bytes::copy_from_slice(message)).await {
            // The receiving side is told why the mocket is closed.
            Err(SendError::Closed(_) | SendError::NoStream) => return Ok(()),
            sent => sent?,
        }
        input.take();
    }
    wait_until_resolved(mocket).await;
    match mocket.sender().ppid(END).build().send("").await {
        Err(SendError::Closed(_) | SendError::NoStream) => return Ok(()),
        sent => sent?,
    }
    *said_all = true;
    Ok(())
}

/// Waits until all messages are resolved: the end must come after everything else, whatever the services.
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

async fn receive_all(
    mocket: &Mocket,
    cut: Cut,
    output: &mut Writer,
    heard_all: &mut bool,
    heard_written: &mut bool,
) -> anyhow::Result<()> {
    let mut batch = Vec::with_capacity(TAKE);
    while !*heard_all {
        // Received messages are handed over or gathered before anything else is awaited, so that nothing is lost if
        // the session leaves.
        let received = tokio::select! {
            biased;
            received = mocket.recv_many(&mut batch, TAKE), if output.has_room() => received,
            handed = output.hand_over() => {
                handed?;
                continue;
            }
        };
        match received {
            Ok(_) => {}
            Err(Closed(reason)) if is_polite(&reason) || reason == CloseReason::Local => return Ok(()),
            Err(Closed(reason)) => return Err(early(&reason)),
        }
        batch.iter().try_for_each(|message| kind::expect_cat(mocket, message))?;
        if batch.iter().any(kind::says_bytes) {
            return kind::refuse(mocket);
        }
        *heard_all = batch.iter().any(is_end);
        // This message arrives when our input has ended, which may be long before the peer's ends.
        *heard_written |= batch.iter().any(says_written);
        write_all(output, &batch, cut)?;
        batch.clear();
    }
    Ok(())
}

/// Waits for the peer's confirmation; after its end nothing else arrives.
async fn hear_written(mocket: &Mocket, heard_written: &mut bool) -> anyhow::Result<()> {
    while !*heard_written {
        // The reason of the close is checked when closing.
        let Ok(message) = mocket.recv().await else { return Ok(()) };
        *heard_written = says_written(&message);
    }
    Ok(())
}

fn is_end(message: &Message) -> bool {
    message.ppid == Some(END) && message.payload.is_empty()
}

fn write_all(output: &mut Writer, batch: &[Message], cut: Cut) -> io::Result<()> {
    for message in batch.iter().filter(|message| !is_end(message) && !says_written(message)) {
        output.give(&message.payload)?;
        if cut == Cut::Lines {
            output.end_line()?;
        }
    }
    Ok(())
}
