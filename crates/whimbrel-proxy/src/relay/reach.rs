//! Whether a peer can be reached over a session.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::connector::Link;

/// The longest time between the end of a session's streams and its own.
const MOMENT: Duration = Duration::from_millis(200);

/// Whether a path of a session works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    /// None has since then.
    LostSince(Instant),
    /// The session is over.
    Over,
}

/// Whether a path of a session works.
#[derive(Debug)]
pub(super) struct Reach(watch::Sender<State>);

/// Follows the reach of a session.
#[derive(Clone, Debug)]
pub(crate) struct Reached(watch::Receiver<State>);

impl Reach {
    pub(super) fn new() -> Self {
        Self(watch::channel(State::Works).0)
    }

    /// Looks at the paths again.
    pub(super) fn update(&self, link: &Link) {
        let reachable = link.is_reachable();
        self.0.send_if_modified(|state| {
            let changes = reachable != (*state == State::Works) && *state != State::Over;
            if changes {
                *state = if reachable { State::Works } else { State::LostSince(Instant::now()) };
            }
            changes
        });
    }

    /// The session is over.
    pub(super) fn end(&self) {
        self.0.send_replace(State::Over);
    }

    /// Returns whether the session is over.
    pub(super) fn is_over(&self) -> bool {
        *self.0.borrow() == State::Over
    }

    pub(super) fn follow(&self) -> Reached {
        Reached(self.0.subscribe())
    }
}

impl Reached {
    /// Returns whether no path has worked for so long.
    pub(crate) fn is_lost(&self, limit: Duration) -> bool {
        match *self.0.borrow() {
            State::Works => false,
            State::LostSince(since) => since.elapsed() >= limit,
            State::Over => true,
        }
    }

    /// Returns whether the session is over, or is within a moment: a stream of it fails a little earlier.
    pub(crate) async fn is_ending(&mut self) -> bool {
        tokio::time::timeout(MOMENT, self.over()).await.is_ok()
    }

    /// Waits until a path works again, or none does any more.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the session is over.
    pub(crate) async fn over(&mut self) {
        // An error means that the session is gone.
        drop(self.0.wait_for(|state| *state == State::Over).await);
    }

    /// Waits until no path has worked for so long.
    pub(crate) async fn lost(&mut self, limit: Duration) {
        loop {
            let since = match *self.0.borrow_and_update() {
                State::Works => None,
                State::LostSince(since) => Some(since),
                State::Over => return,
            };
            tokio::select! {
                () = sleep_until(since.unwrap_or_else(Instant::now) + limit), if since.is_some() => return,
                changed = self.0.changed() => if changed.is_err() {
                    // The session is over, which others say.
                    std::future::pending::<()>().await;
                },
            }
        }
    }
}
