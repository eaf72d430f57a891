//! How what came is read.

use std::collections::VecDeque;

use whimbrel_proto::session::Message;

use super::Mocket;
use crate::error::Closed;
use crate::shared::lock;

/// Messages fetched from the session at once.
const FETCH: usize = 256;

impl Mocket {
    /// The next message of any stream that was not claimed. Cancel-safe.
    ///
    /// # Errors
    /// The mocket is closed and all that came was read.
    pub async fn recv(&self) -> Result<Message, Closed> {
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(message) = lock(&self.inbox).pop_front() {
                return Ok(message);
            }
            self.fetch().await?;
        }
    }

    /// Appends at least one and at most `most` messages to `out`; returns how many. Cancel-safe.
    ///
    /// # Errors
    /// As [`Mocket::recv`].
    pub async fn recv_many(&self, out: &mut Vec<Message>, most: usize) -> Result<usize, Closed> {
        tokio::task::coop::consume_budget().await;
        loop {
            let readable = self.shared.readable.notified();
            tokio::pin!(readable);
            readable.as_mut().enable();
            let count = self.take_many(out, most);
            if count > 0 {
                return Ok(count);
            }
            if let Some(reason) = &self.shared.lock().closed {
                return Err(Closed(reason.clone()));
            }
            readable.await;
        }
    }

    /// What was fetched before, else straight from the session.
    fn take_many(&self, out: &mut Vec<Message>, most: usize) -> usize {
        let mut inbox = lock(&self.inbox);
        if !inbox.is_empty() {
            let count = inbox.len().min(most);
            out.extend(inbox.drain(..count));
            return count;
        }
        self.read_from_session(out, most)
    }

    fn read_from_session(&self, out: &mut impl Extend<Message>, most: usize) -> usize {
        let mut state = self.shared.lock();
        if state.suspending {
            // It goes with the session.
            return 0;
        }
        let now = self.shared.clock.now();
        let count = state.connection.session().recv_many(now, out, most);
        if count > 0 && state.connection.session().has_control() {
            // Credit to give back.
            self.shared.wake(state);
        }
        count
    }

    /// The next message if one is there.
    pub fn try_recv(&self) -> Option<Message> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() {
            self.refill(&mut inbox);
        }
        inbox.pop_front()
    }

    /// Waits until the inbox holds something.
    async fn fetch(&self) -> Result<(), Closed> {
        loop {
            let readable = self.shared.readable.notified();
            tokio::pin!(readable);
            readable.as_mut().enable();
            if self.refill(&mut lock(&self.inbox)) {
                return Ok(());
            }
            if let Some(reason) = &self.shared.lock().closed {
                return Err(Closed(reason.clone()));
            }
            readable.await;
        }
    }

    fn refill(&self, inbox: &mut VecDeque<Message>) -> bool {
        !inbox.is_empty() || self.read_from_session(inbox, FETCH) > 0
    }

    /// Tells the sender that the application has taken this message, if it asked ([`SenderBuilder::confirm`](crate::SenderBuilder::confirm)).
    pub fn confirm(&self, message: &Message) {
        let mut state = self.shared.lock();
        state.connection.session().confirm(message);
        self.shared.wake(state);
    }
}
