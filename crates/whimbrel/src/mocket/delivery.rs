//! Messages whose outcome the application waits for.

use tokio::sync::oneshot;
use whimbrel_proto::MessageId;
use whimbrel_proto::session::{Outcome, Outgoing};

use super::handle::Mocket;
use super::sending::{Refused, translate};
use crate::error::SendError;
use crate::locked::Locked;

/// The pending outcome of a tracked message. Await it with [`Delivery::outcome`].
///
/// ```no_run
/// # async fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
/// use whimbrel::Outcome;
///
/// let delivery = mocket.sender().build().send_tracked("a report").await?;
/// match delivery.outcome().await {
///     Outcome::Delivered => println!("in the peer's inbox"),
///     other => println!("not delivered: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Delivery {
    id: MessageId,
    outcome: oneshot::Receiver<Outcome>,
}

impl Delivery {
    /// Returns the ID that the send call gave the message.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Waits for the outcome. It is Unknown if the session ends first. Dropping the future discards the outcome; the
    /// message is still sent.
    pub async fn outcome(self) -> Outcome {
        self.outcome.await.unwrap_or(Outcome::Unknown)
    }
}

impl Mocket {
    pub(super) async fn send_tracked(&self, outgoing: Outgoing) -> Result<Delivery, SendError> {
        tokio::task::coop::consume_budget().await;
        let mut outgoing = Outgoing { tracked: true, ..outgoing };
        loop {
            match self.try_tracked(outgoing) {
                Ok(delivery) => return Ok(delivery),
                Err((SendError::QueueFull, Some(back))) => outgoing = self.wait_for_room(*back).await?,
                Err((error, _)) => return Err(error),
            }
        }
    }

    fn try_tracked(&self, outgoing: Outgoing) -> Result<Delivery, Refused> {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        let id = match state.connection.session().send(now, outgoing) {
            Ok(id) => id,
            Err(error) => return Err(translate(error, &state)),
        };
        Ok(self.track(state, id))
    }

    pub(super) fn track(&self, mut state: Locked<'_>, id: MessageId) -> Delivery {
        let (tell, outcome) = oneshot::channel();
        state.outcomes.insert(id, tell);
        self.shared.wake(state);
        Delivery { id, outcome }
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("id", &self.id).finish_non_exhaustive()
    }
}
