//! Applying the settings of message streams.

use std::time::Duration;

use super::config::DEFAULT_CREDIT;
use super::content::Content;
use super::message::{DomainKey, OpenError, StreamError, StreamKind};
use super::numbers::{Domain, StreamSlot};
use super::options::{CreditPolicy, RouteClass, StreamOptions};
use super::receive::latest::Latest;
use super::send::retransmit::Lost;
use super::state::Session;
use crate::StreamId;

impl Session {
    /// Opens a stream of messages.
    ///
    /// # Errors
    /// Fails like [`Session::open_stream`]. A stream that keeps only the latest messages gets a queue of its own
    /// ([`Session::claim_stream`]).
    pub fn open_messages(&mut self, options: StreamOptions) -> Result<StreamId, OpenError> {
        let id = self.open_stream(StreamKind::Messages)?;
        if matches!(options.credit, CreditPolicy::Latest { .. }) {
            self.claim_stream(id);
        }
        // This cannot fail: the stream was just opened, for messages.
        self.set_stream_options(id, options).ok();
        Ok(id)
    }

    /// Returns the settings of a stream, if it is open.
    pub fn stream_options(&self, id: StreamId) -> Option<StreamOptions> {
        self.streams.look(id).map(|stream| stream.content.options())
    }

    /// Changes the settings of a message stream from now on. To keep only the latest messages, it must have a queue of
    /// its own ([`Session::claim_stream`]).
    ///
    /// # Errors
    /// Returns a [`StreamError`].
    pub fn set_stream_options(&mut self, id: StreamId, options: StreamOptions) -> Result<(), StreamError> {
        let slot = self.streams.find(id).ok_or(StreamError::UnknownStream)?;
        let window = self.config.stream_window.max(DEFAULT_CREDIT);
        let stream = self.streams.held_mut(slot).ok_or(StreamError::UnknownStream)?;
        let halves = match &mut stream.content {
            Content::Messages(halves) => halves,
            Content::Bytes(_) => return Err(StreamError::WrongKind),
            Content::Unknown => return Err(StreamError::UnknownStream),
        };
        if matches!(options.credit, CreditPolicy::Latest { .. }) && !stream.claimed {
            return Err(StreamError::SharedInbox);
        }
        halves.options = options;
        match (options.credit, &mut halves.latest) {
            (CreditPolicy::Latest { unread }, Some(latest)) => latest.keep(Some(unread)),
            (CreditPolicy::Latest { unread }, none) => *none = Some(Box::new(Latest::new(unread, window))),
            (CreditPolicy::Wait, Some(latest)) => latest.keep(None),
            (CreditPolicy::Wait, None) => {}
        }
        let discarded = halves.latest.as_mut().map_or((0, 0), |latest| latest.discard());
        self.on_discarded(discarded);
        for domain in Domain::ALL {
            self.list_gap(slot, domain);
        }
        Ok(())
    }

    pub(super) fn on_discarded(&mut self, (messages, bytes): (u64, u64)) {
        let stats = &mut self.accounting.stats;
        stats.discarded += messages;
        stats.discarded_bytes += bytes;
        stats.unread = stats.unread.saturating_sub(messages);
    }

    /// Returns how long gaps on a stream are waited for.
    pub(super) fn gap_wait(&self, slot: StreamSlot) -> Duration {
        let own = self.streams.held(slot).and_then(|stream| stream.content.messages()?.options.gap_wait);
        own.unwrap_or(self.config.gap_wait)
    }

    /// Returns the route class of the data that would be sent next, for a scheduler that is choosing a path. None:
    /// there is no data, or only notices, which may take any path.
    pub fn next_route(&self) -> Option<RouteClass> {
        let (key, own) = self.next_to_send()?;
        own.or_else(|| {
            let halves = self.streams.still(key)?.content.messages();
            Some(halves.map_or(RouteClass::default(), |halves| halves.options.route))
        })
    }

    fn next_to_send(&self) -> Option<(DomainKey, Option<RouteClass>)> {
        let sent = |key: DomainKey, number: u64| {
            (key, self.streams.still_sending(key).and_then(|domain| domain.get(number)?.route))
        };
        match self.retransmit.lost.front() {
            Some(Lost::Run { key, first, .. }) => return Some(sent(*key, *first)),
            Some(Lost::Parts { key, number }) => return Some(sent(*key, *number)),
            Some(Lost::Bytes { key }) => return Some((*key, None)),
            None => {}
        }
        let lane = self.outbox.lane(self.outbox.pick()?);
        match lane.partial {
            Some(number) => Some(sent(lane.key, number)),
            None => Some((lane.key, lane.front().and_then(|item| item.route))),
        }
    }
}
