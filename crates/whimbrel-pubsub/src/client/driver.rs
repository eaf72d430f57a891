//! Keeps a client connected, and publishes.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use whimbrel::Endpoint;

use super::backoff::Backoff;
use super::error::ClientError;
use super::link::Link;
use super::options::ClientOptions;
use super::publishing::{Outbox, Submitted, Unanswered};
use super::session::{NoSession, Session};
use crate::frame::{BrokerFrame, ClientFrame, Hello};

/// Closing a session that is not needed any more.
const DONE: u64 = 0;
/// Closing one whose broker did what no broker should.
const MISUSED: u64 = 1;

/// Runs until all handles are dropped, or no broker was reached for as long as that may last.
pub(super) async fn run(
    endpoint: Endpoint,
    options: ClientOptions,
    outbox: Arc<Outbox>,
    submitted: mpsc::UnboundedReceiver<Submitted>,
    link: watch::Sender<Link>,
) {
    let mut driver = Driver { endpoint, options, outbox, submitted, unanswered: Unanswered::default(), link };
    let error = driver.stay_connected().await;
    driver.outbox.close();
    driver.unanswered.give_up(&error);
    driver.submitted.close();
    while let Some(submitted) = driver.submitted.recv().await {
        driver.unanswered.push(submitted);
    }
    driver.unanswered.give_up(&error);
    driver.link.send_replace(Link::Failed(error));
}

struct Driver {
    endpoint: Endpoint,
    options: ClientOptions,
    outbox: Arc<Outbox>,
    submitted: mpsc::UnboundedReceiver<Submitted>,
    unanswered: Unanswered,
    link: watch::Sender<Link>,
}

impl Driver {
    /// Goes from broker to broker. Returns why it gives up.
    async fn stay_connected(&mut self) -> ClientError {
        let mut backoff = Backoff::new();
        let (mut at, mut failures, mut since) = (0, 0, Instant::now());
        loop {
            let Some(broker) = self.options.brokers.get(at).cloned() else {
                return ClientError::NoBroker("none is configured".to_owned());
            };
            let hello = Hello { latest: self.outbox.latest(), name: self.options.name.clone() };
            let mut left = false;
            let why = match Session::open(&self.endpoint, &broker, hello, self.options.patience).await {
                Ok(session) => {
                    backoff.reset();
                    self.link.send_replace(Link::Up(session.clone()));
                    let ended = self.serve(&session).await;
                    self.link.send_replace(Link::Searching);
                    (failures, since, left) = (0, Instant::now(), true);
                    match ended {
                        Ok(why) => why,
                        Err(why) => {
                            session.mocket().begin_close(MISUSED, &why);
                            return ClientError::NotUnderstood { broker: broker.to_string(), why };
                        }
                    }
                }
                Err(NoSession::Unreachable(why)) => why,
                Err(NoSession::NotUnderstood(why)) => {
                    return ClientError::NotUnderstood { broker: broker.to_string(), why };
                }
            };
            if self.options.give_up_after.is_some_and(|limit| since.elapsed() >= limit) {
                return ClientError::NoBroker(why);
            }
            at = (at + 1) % self.options.brokers.len();
            failures += 1;
            sleep(backoff.before(left, failures, self.options.brokers.len())).await;
        }
    }

    /// Publishes in a session until it ends, and says why it did. Fails if the broker does what no broker should.
    async fn serve(&mut self, session: &Session) -> Result<String, String> {
        let mocket = session.mocket();
        let credit = session.welcome().credit;
        self.unanswered.restart();
        let sender = mocket.sender().build();
        loop {
            while let Some((number, message)) = self.unanswered.next(credit) {
                if let Err(error) = sender.send(ClientFrame::Publish(number, message).encode()).await {
                    return Ok(error.to_string());
                }
            }
            tokio::select! {
                received = mocket.recv() => {
                    let message = match received {
                        Ok(message) => message,
                        Err(closed) => return Ok(closed.to_string()),
                    };
                    match BrokerFrame::parse(&message.payload) {
                        Ok(BrokerFrame::Published { first, last, latest }) => {
                            self.unanswered.taken(first, last, latest, &self.outbox)?;
                        }
                        Ok(BrokerFrame::Refused(number, refusal)) => self.unanswered.refused(number, refusal)?,
                        Ok(BrokerFrame::Welcome(_)) => return Err("it said welcome twice".to_owned()),
                        Err(error) => return Err(error.to_string()),
                    }
                }
                submitted = self.submitted.recv() => match submitted {
                    Some(submitted) => self.unanswered.push(submitted),
                    // The outbox lives as long as this does.
                    None => return Ok("the client was stopped".to_owned()),
                },
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Link::Up(session) = &*self.link.borrow() {
            session.mocket().begin_close(DONE, "the client was stopped");
        }
    }
}
