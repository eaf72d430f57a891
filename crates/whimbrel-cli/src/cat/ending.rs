//! How an exchange ends: in order, once both inputs have ended and are written at the other end, or early.

use anyhow::{Error, anyhow, bail};
use tokio::sync::broadcast::error::RecvError;
use whimbrel::{CloseReason, Event, Message, Mocket, Reason, SendError};
use whimbrel_proto::Cause;

use crate::closed::why;

/// Code of an abort before everything was through. A polite close has code 0.
pub(super) const EARLY: u64 = 4;
/// Protocol identifier of the empty message that says that all of the peer's input is written: only then has it arrived.
const WRITTEN: u32 = 3;

/// Says that all of the peer's input is written, unless nobody is there to hear it.
///
/// # Errors
/// As of any message.
pub(super) async fn say_written(mocket: &Mocket) -> Result<(), SendError> {
    match mocket.sender().ppid(WRITTEN).build().send("").await {
        Err(SendError::Closed(_)) => Ok(()),
        said => said,
    }
}

/// By this message the peer says that all of our input is written.
pub(super) fn says_written(message: &Message) -> bool {
    message.ppid == Some(WRITTEN) && message.payload.is_empty()
}

/// Starts to listen now; the future waits until the peer closes, or the mocket is closed.
pub(super) fn closing(mocket: &Mocket) -> impl Future<Output = ()> + use<> {
    let mut events = mocket.subscribe();
    async move {
        loop {
            match events.recv().await {
                Ok(Event::PeerClosing(_) | Event::Closed(_)) | Err(RecvError::Closed) => return,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
            }
        }
    }
}

/// The peer closed politely: all that it had sent has come. Programs that know nothing of `cat` end so.
pub(super) fn is_polite(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::Peer(said) if said.code == 0)
}

/// Closes politely. `whole`: nothing is missing, and nothing is left that was to be sent.
///
/// # Errors
/// Not everything may have arrived.
pub(super) async fn close(mocket: &Mocket, whole: bool) -> anyhow::Result<()> {
    match mocket.close(0, "").await {
        reason if whole && (reason == CloseReason::Local || is_polite(&reason)) => Ok(()),
        CloseReason::Local => bail!("the peer ended early: not everything may have arrived"),
        reason => Err(early(&reason)),
    }
}

/// What to say of an end that is not in order.
pub(super) fn early(reason: &CloseReason) -> Error {
    match reason {
        CloseReason::Peer(said) | CloseReason::Aborted(Cause::Application, said)
            if matches!(said.code, 0 | EARLY) =>
        {
            let Reason { text, .. } = said;
            let text = if text.is_empty() { String::new() } else { format!(" ({text})") };
            anyhow!("the peer ended early{text}: not everything may have arrived")
        }
        reason => anyhow!("{}; not everything may have arrived", why(reason)),
    }
}
