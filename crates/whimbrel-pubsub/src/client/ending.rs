//! The end of a durable subscription.

use tokio::sync::watch;
use whimbrel::StreamOptions;

use super::error::ClientError;
use super::link::Link;
use super::session::Session;
use crate::frame::{Refusal, RefusalCode, SubscriberFrame, SubscriptionFrame};

/// Why a durable subscription was not ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// The broker refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The client has given up.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Ends the subscription of this name at the broker that the client is connected to, or comes to.
pub(super) async fn end(name: &str, mut link: watch::Receiver<Link>) -> Result<bool, EndError> {
    loop {
        let session = match &*link.borrow_and_update() {
            Link::Up(session) => Some(session.clone()),
            Link::Failed(error) => return Err(error.clone().into()),
            Link::Searching => None,
        };
        if let Some(session) = session
            && let Some(answer) = ask(&session, name).await
        {
            return answer;
        }
        // The session has ended: the next one is asked.
        link.changed().await.map_err(|_| ClientError::Stopped)?;
    }
}

/// Asks in one session. `None`: it ended before the answer came.
async fn ask(session: &Session, name: &str) -> Option<Result<bool, EndError>> {
    let mut stream = session.mocket().open_messages(StreamOptions::default()).await.ok()?;
    stream.send(SubscriberFrame::End(name.to_owned()).encode()).await.ok()?;
    let answer = stream.recv().await.ok()?;
    Some(match SubscriptionFrame::parse(&answer.payload) {
        Ok(SubscriptionFrame::Unsubscribed(was_there)) => Ok(was_there),
        Ok(SubscriptionFrame::Ended(refusal)) => Err(refusal.into()),
        _ => Err(Refusal::new(RefusalCode::Mistake, "the broker's answer is not one of this version").into()),
    })
}
