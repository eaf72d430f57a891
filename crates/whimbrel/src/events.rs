//! Subscriptions to the events of a session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use whimbrel_proto::Event;

use crate::lock::lock;

/// The number of events that a subscriber may fall behind before the oldest are dropped.
const EVENT_BACKLOG: usize = 256;

/// An error from receiving an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventsError {
    /// The subscriber fell behind, and this many of the oldest events were dropped. The later events follow.
    #[error("{0} events were missed: read them sooner")]
    Missed(u64),
    /// The session has ended, and every event was read.
    #[error("there are no more events: the session has ended")]
    Closed,
}

/// The events of a session, from [`Mocket::subscribe`](crate::Mocket::subscribe). A subscription does not keep the
/// session open.
#[derive(Debug)]
pub struct Events(Arc<Mutex<EventQueue>>);

#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<Event>,
    missed: u64,
    is_over: bool,
    reader: Option<Waker>,
}

impl Events {
    /// Receives the next event. Cancel-safe.
    ///
    /// # Errors
    /// [`EventsError::Missed`], after which the events go on. [`EventsError::Closed`] after the last event, which is
    /// [`Event::Closed`].
    pub async fn recv(&mut self) -> Result<Event, EventsError> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next event, like [`Events::recv`].
    ///
    /// # Errors
    /// The same as for [`Events::recv`].
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, EventsError>> {
        let mut queue = lock(&self.0);
        let next = queue.next();
        match next {
            Some(next) => Poll::Ready(next),
            None => {
                queue.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns the next event, if one is there.
    ///
    /// # Errors
    /// The same as for [`Events::recv`].
    pub fn try_recv(&mut self) -> Result<Option<Event>, EventsError> {
        lock(&self.0).next().transpose()
    }
}

impl EventQueue {
    fn next(&mut self) -> Option<Result<Event, EventsError>> {
        if self.missed > 0 {
            return Some(Err(EventsError::Missed(std::mem::take(&mut self.missed))));
        }
        match self.events.pop_front() {
            Some(event) => Some(Ok(event)),
            None => self.is_over.then_some(Err(EventsError::Closed)),
        }
    }

    fn push(&mut self, event: Event) {
        if self.events.len() == EVENT_BACKLOG {
            self.events.pop_front();
            self.missed += 1;
        }
        self.events.push_back(event);
    }

    fn wake(&mut self) -> Option<Waker> {
        self.reader.take()
    }
}

/// The queues of all subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Vec<Arc<Mutex<EventQueue>>>);

impl Subscribers {
    pub(crate) fn subscribe(&mut self) -> Events {
        self.0.retain(|queue| Arc::strong_count(queue) > 1);
        let queue = Arc::default();
        self.0.push(Arc::clone(&queue));
        Events(queue)
    }

    /// Queues an event for every subscriber. Returns those who wait for it.
    pub(crate) fn tell(&mut self, event: &Event) -> Vec<Waker> {
        let mut woken = Vec::new();
        self.0.retain(|queue| Arc::strong_count(queue) > 1);
        for queue in &self.0 {
            let mut queue = lock(queue);
            queue.push(event.clone());
            woken.extend(queue.wake());
        }
        if matches!(event, Event::Closed(_)) {
            woken.append(&mut self.end());
        }
        woken
    }

    /// Ends all subscriptions: no events follow.
    fn end(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        for queue in std::mem::take(&mut self.0) {
            let mut queue = lock(&queue);
            queue.is_over = true;
            woken.extend(queue.wake());
        }
        woken
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.end().into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_falls_behind_is_told_by_how_much_and_goes_on() {
        let mut subscribers = Subscribers::default();
        let (mut slow, gone) = (subscribers.subscribe(), subscribers.subscribe());
        drop(gone);
        for _ in 0..EVENT_BACKLOG + 3 {
            subscribers.tell(&Event::PeerUnreachable);
        }
        assert_eq!(subscribers.0.len(), 1, "nobody is left who could read the other's");
        assert_eq!(slow.try_recv(), Err(EventsError::Missed(3)));
        assert_eq!(
            (0..EVENT_BACKLOG).filter(|_| slow.try_recv() == Ok(Some(Event::PeerUnreachable))).count(),
            256
        );
        assert_eq!(slow.try_recv(), Ok(None));
        subscribers.tell(&Event::Closed(whimbrel_proto::CloseReason::Local));
        assert!(matches!(slow.try_recv(), Ok(Some(Event::Closed(_)))));
        assert_eq!(slow.try_recv(), Err(EventsError::Closed));
    }

    #[test]
    fn a_subscription_takes_little_memory() {
        assert!(size_of::<EventQueue>() + 100 < 2_000, "{}", size_of::<EventQueue>());
        assert_eq!(EventQueue::default().events.capacity(), 0, "room is made for events that come");
    }
}
