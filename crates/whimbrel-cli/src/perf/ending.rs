//! The early end of a measurement.

use std::convert::Infallible;
use std::time::Duration;

use serde::{Serialize, Serializer};
use tokio::time::{Instant, sleep_until};
use whimbrel::EventsError;
use whimbrel::{CloseReason, Event, Mocket, PathState, PathStats, SendError};

use crate::closed::why;
use crate::output::note;

const OUT_OF_REACH: &str = "the peer is out of reach";

/// Why a measurement ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EarlyEnd {
    /// Ctrl-C was pressed.
    Interrupted,
    /// The peer is gone, or no longer answers.
    Lost(String),
}

impl std::fmt::Display for EarlyEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Lost(why) => f.write_str(why),
        }
    }
}

impl Serialize for EarlyEnd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<CloseReason> for EarlyEnd {
    fn from(reason: CloseReason) -> Self {
        Self::Lost(why(&reason))
    }
}

impl From<SendError> for EarlyEnd {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Closed(reason) => reason.into(),
            other => Self::Lost(other.to_string()),
        }
    }
}

/// How long the listener waits for a peer out of reach. The peer has a limit of its own and closes when it is
/// reached. A session would wait for an hour.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns whether the peer was there and no path to it works now.
fn is_out_of_reach(mocket: &Mocket) -> bool {
    let works = |path: &PathStats| matches!(path.state, PathState::Active | PathState::Standby);
    mocket.is_established() && !mocket.stats().connection.paths.iter().any(works)
}

/// Waits until a peer out of reach is given up: after `patience`, and not before `end`.
pub(super) async fn given_up(mocket: &Mocket, end: Option<Instant>, patience: Duration) -> EarlyEnd {
    let mut events = mocket.subscribe();
    let mut unreachable = is_out_of_reach(mocket).then(Instant::now);
    loop {
        let until = unreachable.max(unreachable.and(end)).map(|since: Instant| since + patience);
        tokio::select! {
            event = events.recv() => match event {
                Ok(Event::PeerUnreachable | Event::Detached) => drop(unreachable.get_or_insert_with(Instant::now)),
                Ok(Event::PeerReachable | Event::Reattached { .. } | Event::PeerResumed { .. }) => unreachable = None,
                Ok(_) | Err(EventsError::Missed(_)) => {}
                // The receiving side is told why the mocket is closed.
                Err(EventsError::Closed) => return std::future::pending().await,
            },
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                return EarlyEnd::Lost(OUT_OF_REACH.to_owned());
            }
        }
    }
}

/// Tells people when the peer is out of reach and when it is back, until it is dropped.
pub(super) async fn tell_reach(mocket: &Mocket) -> Infallible {
    let mut events = mocket.subscribe();
    loop {
        match events.recv().await {
            Ok(Event::PeerUnreachable) => note(OUT_OF_REACH),
            Ok(Event::PeerReachable | Event::Reattached { .. }) => note("the peer answers again"),
            Ok(_) | Err(EventsError::Missed(_)) => {}
            Err(EventsError::Closed) => return std::future::pending().await,
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
        let over = given_up(&mocket, Instant::now().checked_sub(PATIENCE), Duration::ZERO);
        let soon = given_up(&mocket, None, Duration::ZERO);
        let never = given_up(&mocket, None, Duration::from_secs(86_400));
        tokio::pin!(over, soon, never);
        assert!(timeout(Duration::ZERO, &mut over).await.is_err(), "the peer is there");
        assert!(timeout(Duration::ZERO, &mut soon).await.is_err(), "the peer is there");
        // The peer disappears without a farewell.
        elsewhere.shutdown_background();
        mocket.send("is anybody there?").await.unwrap();
        let cut = timeout(Duration::from_secs(60), &mut over).await.unwrap();
        assert_eq!(cut, EarlyEnd::Lost(OUT_OF_REACH.to_owned()));
        assert_eq!(timeout(Duration::from_secs(60), &mut soon).await.unwrap(), cut);
        while events.recv().await.unwrap() != Event::PeerUnreachable {}
        assert!(timeout(Duration::ZERO, &mut never).await.is_err(), "it may come back");
    }
}
