//! The queue of events for the application, in the order in which they happened.

use std::collections::VecDeque;

use crate::connection::event::Event;

/// The event queue. [`Event::Closed`] is its last event, whatever else the packet that ended the connection brought.
#[derive(Debug, Default)]
pub(in crate::connection) struct Events {
    waiting: VecDeque<Event>,
    /// Whether the last event was queued.
    over: bool,
}

impl Events {
    pub(in crate::connection) fn push_back(&mut self, event: Event) {
        if !self.over {
            self.over = matches!(event, Event::Closed(_));
            self.waiting.push_back(event);
        }
    }

    /// Adds an event before all others.
    pub(in crate::connection) fn push_front(&mut self, event: Event) {
        self.waiting.push_front(event);
    }

    /// Removes and returns the first event. Frees the queue's memory with the last one.
    pub(in crate::connection) fn pop_front(&mut self) -> Option<Event> {
        take_first(&mut self.waiting)
    }

    /// Removes and returns the last event.
    pub(in crate::connection) fn pop_back(&mut self) -> Option<Event> {
        self.waiting.pop_back()
    }

    pub(in crate::connection) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps the first `count` events, and those of the others that `keep` accepts.
    pub(in crate::connection) fn retain_from(&mut self, count: usize, mut keep: impl FnMut(&Event) -> bool) {
        let mut at = 0;
        self.waiting.retain(|event| {
            at += 1;
            at <= count || keep(event)
        });
    }
}

impl Extend<Event> for Events {
    fn extend<T: IntoIterator<Item = Event>>(&mut self, events: T) {
        events.into_iter().for_each(|event| self.push_back(event));
    }
}

/// Removes and returns the first entry. Frees the queue's memory with the last one, since entries are rare.
pub(in crate::connection) fn take_first<T>(news: &mut VecDeque<T>) -> Option<T> {
    let first = news.pop_front();
    if news.is_empty() {
        *news = VecDeque::new();
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::lifecycle::close::CloseReason;

    #[test]
    fn nothing_comes_behind_the_last() {
        let mut events = Events::default();
        events.extend([Event::Connected, Event::Closed(CloseReason::Local), Event::PeerReachable]);
        assert_eq!(events.len(), 2);
        assert_eq!(events.pop_front(), Some(Event::Connected));
        assert_eq!(events.pop_front(), Some(Event::Closed(CloseReason::Local)));
        events.push_back(Event::PeerUnreachable);
        assert_eq!(events.pop_front(), None);
    }

    #[test]
    fn what_is_kept_begins_behind_a_count() {
        let mut events = Events::default();
        events.extend([Event::Connected, Event::Connected, Event::PeerReachable]);
        events.retain_from(1, |event| *event != Event::Connected);
        assert_eq!(
            (events.pop_front(), events.pop_back()),
            (Some(Event::Connected), Some(Event::PeerReachable))
        );
        events.push_front(Event::Connected);
        assert_eq!(events.len(), 1);
    }
}
