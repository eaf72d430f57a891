//! The messages that wait to be published, and those that wait to be acknowledged.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use std::sync::Arc;

use super::error::{ClientError, PublishError};
use super::options::Publish;
use crate::frame::{Credit, Refusal};
use crate::message::{Hlc, Message, Publication, PublisherId, WINDOW};

/// The most messages that wait to be sent or acknowledged. Beyond, brokers would not recognise those that are sent again.
const MOST: usize = WINDOW as usize - 1;

/// A message on its way.
#[derive(Debug)]
pub(super) struct Submitted {
    pub(super) message: Message,
    answer: oneshot::Sender<Result<(), PublishError>>,
    _permit: OwnedSemaphorePermit,
}

/// Where programs put messages.
#[derive(Debug)]
pub(crate) struct Outbox {
    room: Arc<Semaphore>,
    queue: Mutex<Queue>,
    latest: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    publisher: PublisherId,
    number: u64,
    submit: mpsc::UnboundedSender<Submitted>,
}

/// Says when a broker has taken a message.
#[derive(Debug)]
#[must_use = "what a broker refuses is told here"]
pub struct Acknowledgement(oneshot::Receiver<Result<(), PublishError>>);

impl Acknowledgement {
    /// Waits until a broker has taken the message.
    ///
    /// # Errors
    /// The broker refuses it, or the client has given up.
    pub async fn acknowledged(self) -> Result<(), PublishError> {
        self.await
    }
}

impl Future for Acknowledgement {
    type Output = Result<(), PublishError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|answer| answer.unwrap_or(Err(PublishError::Client(ClientError::Stopped))))
    }
}

impl Outbox {
    /// An empty one, with what takes messages out.
    pub(super) fn new(key: &[u8; 32]) -> (Self, mpsc::UnboundedReceiver<Submitted>) {
        let (submit, submitted) = mpsc::unbounded_channel();
        let publisher = PublisherId::of_client(key, random() as u64);
        let queue = Mutex::new(Queue { publisher, number: 0, submit });
        (Self { room: Arc::new(Semaphore::new(MOST)), queue, latest: AtomicU64::new(0) }, submitted)
    }

    /// Puts a message in, once there is room.
    pub(super) async fn submit(&self, publish: Publish) -> Result<Acknowledgement, PublishError> {
        let stopped = || PublishError::Client(ClientError::Stopped);
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| stopped())?;
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let number = queue.number + 1;
        let message = publish.message(Publication { publisher: queue.publisher, number })?;
        queue.number = number;
        let (answer, answered) = oneshot::channel();
        queue.submit.send(Submitted { message, answer, _permit: permit }).map_err(|_| stopped())?;
        Ok(Acknowledgement(answered))
    }

    /// The time of the last message that a broker has taken.
    pub(super) fn latest(&self) -> Hlc {
        Hlc(self.latest.load(Ordering::Relaxed))
    }

    fn acknowledged(&self, latest: Hlc) {
        self.latest.fetch_max(latest.0, Ordering::Relaxed);
    }

    /// Lets nobody wait any more.
    pub(super) fn close(&self) {
        self.room.close();
    }
}

/// Messages that were sent in a session, or are about to be.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// The number of the first in this session.
    first: u64,
    messages: VecDeque<Submitted>,
    /// The number of them that were sent in this session.
    sent: usize,
    /// The bytes of these.
    bytes: usize,
}

impl Unanswered {
    /// A session begins: everything is sent again, from number 1.
    pub(super) fn restart(&mut self) {
        (self.first, self.sent, self.bytes) = (1, 0, 0);
    }

    pub(super) fn push(&mut self, submitted: Submitted) {
        self.messages.push_back(submitted);
    }

    /// The next message to send with its number, if the credit suffices.
    pub(super) fn next(&mut self, credit: Credit) -> Option<(u64, Message)> {
        let next = self.messages.get(self.sent)?;
        let length = next.message.encoded().len();
        let fits = self.sent < credit.messages as usize && self.bytes + length <= credit.bytes as usize;
        if self.sent > 0 && !fits {
            return None;
        }
        self.sent += 1;
        self.bytes += length;
        Some((self.first + self.sent as u64 - 1, next.message.clone()))
    }

    /// The messages `first` to `last` were taken.
    pub(super) fn taken(
        &mut self,
        first: u64,
        last: u64,
        latest: Hlc,
        outbox: &Outbox,
    ) -> Result<(), String> {
        outbox.acknowledged(latest);
        for number in first..=last {
            self.answer(number, Ok(()))?;
        }
        Ok(())
    }

    pub(super) fn refused(&mut self, number: u64, refusal: Refusal) -> Result<(), String> {
        self.answer(number, Err(refusal.into()))
    }

    /// Answers the first message, which must have this number.
    fn answer(&mut self, number: u64, answer: Result<(), PublishError>) -> Result<(), String> {
        let front = self.messages.pop_front().filter(|_| number == self.first && self.sent > 0);
        let Some(submitted) = front else {
            return Err(format!("it answered message {number}, which was not sent"));
        };
        self.first += 1;
        self.sent -= 1;
        self.bytes -= submitted.message.encoded().len();
        // Nobody may be waiting.
        drop(submitted.answer.send(answer));
        Ok(())
    }

    /// Answers everything that is left.
    pub(super) fn give_up(&mut self, error: &ClientError) {
        for submitted in self.messages.drain(..) {
            drop(submitted.answer.send(Err(error.clone().into())));
        }
    }
}

/// A random number, by which brokers know a publisher.
pub(super) fn random() -> u128 {
    let mut bytes = [0; 16];
    // Without random numbers there is no session either.
    aws_lc_rs::rand::fill(&mut bytes).ok();
    u128::from_le_bytes(bytes)
}
