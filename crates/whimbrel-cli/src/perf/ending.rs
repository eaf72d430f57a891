//! How a measurement ends that does not come to its own end.

use std::time::Duration;

use serde::{Serialize, Serializer};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use whimbrel::{CloseReason, Event, Mocket};

/// Why it did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// The peer is gone, or says no more.
    Lost(String),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Lost(why) => f.write_str(why),
        }
    }
}

impl Serialize for Cut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<CloseReason> for Cut {
    fn from(reason: CloseReason) -> Self {
        Self::Lost(reason.to_string())
    }
}

/// How long after the end of its time a measurement waits for a peer out of reach. A session would for an hour.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until nobody hopes any more for a peer that is out of reach: without an `end` somebody does.
pub(super) async fn given_up(mocket: &Mocket, end: Option<Instant>) -> Cut {
    let mut events = mocket.subscribe();
    let Some(end) = end else { return std::future::pending().await };
    let mut unreachable = false;
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(Event::PeerUnreachable | Event::Detached) => unreachable = true,
                Ok(Event::PeerReachable | Event::Reattached { .. } | Event::PeerResumed { .. }) => unreachable = false,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                // Whoever receives is told why.
                Err(RecvError::Closed) => return std::future::pending().await,
            },
            () = sleep_until(end + PATIENCE), if unreachable => return Cut::Lost("the peer is out of reach".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use whimbrel::{Config, Endpoint, new_identity};

    use super::*;

    #[tokio::test]
    async fn a_peer_out_of_reach_is_waited_for_until_the_time_is_over() {
        let elsewhere = tokio::runtime::Runtime::new().unwrap();
        let listen = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0");
        let server = elsewhere.spawn(listen).await.unwrap().unwrap();
        let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
        let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
        let mocket = client.connect(&url).await.unwrap();
        let mut events = mocket.subscribe();
        let over = given_up(&mocket, Instant::now().checked_sub(PATIENCE));
        let never = given_up(&mocket, None);
        tokio::pin!(over, never);
        assert!(timeout(Duration::ZERO, &mut over).await.is_err(), "the peer is there");
        // It says no farewell.
        elsewhere.shutdown_background();
        mocket.send("is anybody there?").await.unwrap();
        let cut = timeout(Duration::from_secs(60), &mut over).await.unwrap();
        assert_eq!(cut, Cut::Lost("the peer is out of reach".to_owned()));
        while events.recv().await.unwrap() != Event::PeerUnreachable {}
        assert!(timeout(Duration::ZERO, &mut never).await.is_err(), "it may come back");
    }
}
