//! The end of an exchange: properly, once both inputs have ended and were written at the other end, or early.

use anyhow::{Error, anyhow, bail};
use whimbrel::EventsError;
use whimbrel::{CloseReason, Event, Message, Mocket, Reason, SendError};
use whimbrel_proto::Cause;

use crate::closed::why;

/// The code of an abort before everything was transferred. A graceful close has code 0.
pub(super) const EARLY: u64 = 4;
/// The protocol identifier of the empty message that says that all of the peer's input was written. Only then has the
/// input arrived.
const WRITTEN: u32 = 3;

/// Tells the peer that all of its input was written, unless the mocket is closed.
///
/// # Errors
/// The message cannot be sent for another reason.
pub(super) async fn say_written(mocket: &Mocket) -> Result<(), SendError> {
    match mocket.sender().ppid(WRITTEN).build().send("").await {
        Err(SendError::Closed(_) | SendError::NoStream) => Ok(()),
        said => said,
    }
}

/// Returns whether the peer says by this message that all of our input was written.
pub(super) fn says_written(message: &Message) -> bool {
    message.ppid == Some(WRITTEN) && message.payload.is_empty()
}

/// Starts listening now. The returned future waits until the peer closes or the mocket is closed, unless it already
/// is.
pub(super) fn closing(mocket: &Mocket) -> impl Future<Output = ()> {
    let mut events = mocket.subscribe();
    let told = async move {
        loop {
            match events.recv().await {
                Ok(Event::PeerClosing(_) | Event::Closed(_)) | Err(EventsError::Closed) => return,
                Ok(_) | Err(EventsError::Missed(_)) => {}
            }
        }
    };
    async move {
        tokio::select! {
            () = told => {}
            // Events before the subscription are not delivered.
            _ = mocket.closed() => {}
        }
    }
}

/// Returns whether the peer closed gracefully: everything it sent has arrived. Programs that do not know `cat`'s
/// protocol end this way.
pub(super) fn is_polite(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::Peer(said) if said.code == 0)
}

/// Closes gracefully. `whole` says that nothing is missing and nothing is left to send.
///
/// # Errors
/// Not everything may have arrived.
pub(super) async fn close(mocket: &Mocket, whole: bool) -> anyhow::Result<()> {
    match mocket.close(0, "").await {
        reason if whole && (reason == CloseReason::Local || is_polite(&reason)) => Ok(()),
        CloseReason::Local => bail!("the peer ended early: some data may not have arrived"),
        reason => Err(early(&reason)),
    }
}

/// The error for an early end.
pub(super) fn early(reason: &CloseReason) -> Error {
    match reason {
        CloseReason::Peer(said) | CloseReason::Aborted(Cause::Application, said)
            if matches!(said.code, 0 | EARLY) =>
        {
            let Reason { text, .. } = said;
            let text = if text.is_empty() { String::new() } else { format!(" ({text})") };
            anyhow!("the peer ended early{text}: some data may not have arrived")
        }
        reason => anyhow!("{}; some data may not have arrived", why(reason)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;
    use whimbrel::{Config, Endpoint, new_identity};

    use super::*;

    #[tokio::test]
    async fn a_close_from_before_is_noticed_too() {
        let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
        let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
        let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
        let near = client.connect(&url).await.unwrap();
        let far = server.accept().await.unwrap();
        assert!(timeout(Duration::ZERO, closing(&near)).await.is_err(), "it is open");
        far.close(0, "").await;
        assert!(is_polite(&near.closed().await));
        timeout(Duration::from_secs(60), closing(&near)).await.expect("nothing tells of it any more");
        close(&near, true).await.unwrap();
        assert!(close(&near, false).await.is_err());
    }
}
