//! The kind of data: both ends carry bytes, or both carry messages. An end that carries bytes says so with an empty
//! message. An end that carries messages opens no byte streams.

use std::convert::Infallible;
use std::future::pending;

use anyhow::bail;
use whimbrel::{Message, Mocket};

use super::ending::says_written;
use crate::commands;

/// The protocol identifier of the empty message that says that an end carries bytes.
const BYTES: u32 = 2;
/// The code of the abort if the kinds differ.
const OTHER_KIND: u64 = 2;
const SENTENCE: &str =
    "one end of cat carries bytes and the other messages: give --bytes at both ends or at neither";

/// Tells the other end that this end carries bytes.
///
/// # Errors
/// The mocket is closed.
pub(super) async fn say_bytes(mocket: &Mocket) -> anyhow::Result<()> {
    Ok(mocket.sender().ppid(BYTES).priority(255).build().send("").await?)
}

/// Returns whether the other end says by this message that it carries bytes.
pub(super) fn says_bytes(message: &Message) -> bool {
    message.ppid == Some(BYTES) && message.payload.is_empty()
}

/// At an end that carries bytes: reads messages until the other end has written all of our bytes.
///
/// # Errors
/// The other end carries messages.
pub(super) async fn expect_bytes(mocket: &Mocket, heard_written: &mut bool) -> anyhow::Result<()> {
    while !*heard_written {
        // The reader of the bytes is told why the mocket is closed.
        let Ok(message) = mocket.recv().await else { return Ok(()) };
        expect_cat(mocket, &message)?;
        if !says_bytes(&message) && !says_written(&message) {
            return refuse(mocket);
        }
        *heard_written = says_written(&message);
    }
    Ok(())
}

/// At an end that carries messages: watches for byte streams.
///
/// # Errors
/// The other end carries bytes.
pub(super) async fn expect_messages(mocket: &Mocket) -> anyhow::Result<Infallible> {
    match mocket.accept_stream().await {
        Ok(_) => refuse(mocket),
        Err(_) => pending().await,
    }
}

/// Aborts at once and tells both ends why.
pub(super) fn refuse<T>(mocket: &Mocket) -> anyhow::Result<T> {
    mocket.abort(OTHER_KIND, SENTENCE);
    bail!(SENTENCE)
}

/// Checks that the other end runs `cat`, and aborts if it does not.
///
/// # Errors
/// The other end runs `whimbrel perf`.
pub(super) fn expect_cat(mocket: &Mocket, message: &Message) -> anyhow::Result<()> {
    if !commands::is_perf(message) {
        return Ok(());
    }
    mocket.abort(commands::OTHER_COMMAND, commands::SENTENCE);
    bail!(commands::SENTENCE)
}
