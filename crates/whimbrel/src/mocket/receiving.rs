//! Receiving messages.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use whimbrel_proto::Time;
use whimbrel_proto::session::{Batch, Message, Session};

use super::handle::Mocket;
use crate::error::Closed;
use crate::lock::lock;

/// The number of messages fetched from the session at a time.
const FETCH: usize = 256;

impl Mocket {
    /// Receives the next message of the default stream, or of a stream without a
    /// [`MessageStream`](crate::MessageStream). Cancel-safe.
    ///
    /// # Errors
    /// The mocket is closed and everything received was read.
    pub async fn recv(&self) -> Result<Message, Closed> {
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(message) = lock(&self.inbox).pop_front() {
                return Ok(message);
            }
            self.fetch().await?;
        }
    }

    /// Appends at least one and at most `most` messages to `out`. Returns how many. Cancel-safe.
    ///
    /// # Errors
    /// The same as for [`Mocket::recv`].
    pub async fn recv_many(&self, out: &mut Vec<Message>, most: usize) -> Result<usize, Closed> {
        self.until_read(|mocket| mocket.take_many(out, most)).await
    }

    /// Replaces the contents of `batch` with at least one and at most `most` messages. Returns how many. The batch
    /// lends its messages instead of giving them away, which is the fastest way to read small ones. Cancel-safe.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::Closed> {
    /// use whimbrel::Batch;
    ///
    /// let (mut batch, mut bytes) = (Batch::new(), 0);
    /// loop {
    ///     mocket.recv_batch(&mut batch, 1024).await?;
    ///     for message in batch.iter() {
    ///         bytes += message.payload.len();
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as for [`Mocket::recv`].
    pub async fn recv_batch(&self, batch: &mut Batch, most: usize) -> Result<usize, Closed> {
        batch.clear();
        self.until_read(|mocket| mocket.take_batch(batch, most)).await
    }

    /// Calls `take` whenever there is something to read, until it has taken something.
    async fn until_read(&self, mut take: impl FnMut(&Self) -> usize) -> Result<usize, Closed> {
        tokio::task::coop::consume_budget().await;
        loop {
            let readable = self.shared.readable.notified();
            tokio::pin!(readable);
            readable.as_mut().enable();
            let count = take(self);
            if count > 0 {
                return Ok(count);
            }
            if let Some(reason) = &self.shared.lock().closed {
                return Err(Closed(reason.clone()));
            }
            readable.await;
        }
    }

    fn take_batch(&self, batch: &mut Batch, most: usize) -> usize {
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() {
            return self.read_from_session(|session, now| session.recv_batch(now, batch, most));
        }
        let count = inbox.len().min(most);
        inbox.drain(..count).for_each(|message| batch.push(message));
        count
    }

    /// Takes messages that were fetched before, or else reads from the session.
    fn take_many(&self, out: &mut Vec<Message>, most: usize) -> usize {
        let mut inbox = lock(&self.inbox);
        if !inbox.is_empty() {
            let count = inbox.len().min(most);
            out.extend(inbox.drain(..count));
            return count;
        }
        self.read_from_session(|session, now| session.recv_many(now, out, most))
    }

    fn read_from_session(&self, read: impl FnOnce(&mut Session, Time) -> usize) -> usize {
        let mut state = self.shared.lock();
        if state.suspending {
            // Unread messages go with the suspended session.
            return 0;
        }
        let now = self.shared.clock.now();
        let count = read(state.connection.session(), now);
        if count > 0 && state.connection.session().has_control() {
            // Wakes the driver task, which returns credit to the peer.
            self.shared.wake(state);
        }
        count
    }

    /// Returns the next message, if one is there.
    pub fn try_recv(&self) -> Option<Message> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() {
            self.refill(&mut inbox);
        }
        inbox.pop_front()
    }

    /// Polls for the next message, like [`Mocket::recv`]. It works on any async runtime and on none: a
    /// [`std::task::Waker`] can wrap anything to wait on, an eventfd for example. Each waiting task is woken once and
    /// must poll again. The waker may call the mocket. It runs in the loop that serves all connections, so it must be
    /// quick.
    ///
    /// ```no_run
    /// # fn example(mocket: &whimbrel::Mocket) {
    /// use std::sync::Arc;
    /// use std::task::{Context, Poll, Wake};
    ///
    /// /// Tells a loop that is not tokio's that there is something to do.
    /// struct Tell(std::sync::mpsc::Sender<()>);
    ///
    /// impl Wake for Tell {
    ///     fn wake(self: Arc<Self>) {
    ///         self.0.send(()).ok();
    ///     }
    /// }
    ///
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let waker = Arc::new(Tell(tell)).into();
    /// let mut cx = Context::from_waker(&waker);
    /// loop {
    ///     match mocket.poll_recv(&mut cx) {
    ///         Poll::Ready(Ok(message)) => println!("{} bytes", message.payload.len()),
    ///         Poll::Ready(Err(closed)) => break println!("{closed}"),
    ///         Poll::Pending => told.recv().unwrap(),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as for [`Mocket::recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<Message, Closed>> {
        if let Some(message) = self.try_recv() {
            return Poll::Ready(Ok(message));
        }
        let mut state = self.shared.lock();
        let closed = state.closed.clone();
        state.listeners().receivers.add(cx.waker());
        drop(state);
        // A message may have been received before the waker was added.
        match (self.try_recv(), closed) {
            (Some(message), _) => Poll::Ready(Ok(message)),
            (None, Some(reason)) => Poll::Ready(Err(Closed(reason))),
            (None, None) => Poll::Pending,
        }
    }

    /// Waits until the inbox holds a message.
    async fn fetch(&self) -> Result<(), Closed> {
        self.until_read(|mocket| usize::from(mocket.refill(&mut lock(&mocket.inbox)))).await.map(drop)
    }

    fn refill(&self, inbox: &mut VecDeque<Message>) -> bool {
        !inbox.is_empty() || self.read_from_session(|session, now| session.recv_many(now, inbox, FETCH)) > 0
    }

    /// Confirms to the sender that the application has taken this message, if the sender asked for it
    /// ([`SenderBuilder::confirm`](crate::SenderBuilder::confirm)).
    pub fn confirm(&self, message: &Message) {
        let mut state = self.shared.lock();
        state.connection.session().confirm(message);
        self.shared.wake(state);
    }
}
