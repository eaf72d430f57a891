//! Detecting and reporting streams that stand still for want of credit.

use std::time::Duration;

use super::stalls::{StreamCredit, Whose};
use crate::Time;
use crate::session::chronicle::Note;
use crate::session::content::Content;
use crate::session::message::{DomainKey, SessionEvent};
use crate::session::numbers::{LaneSlot, StreamSlot};
use crate::session::send::lane::LaneState;
use crate::session::state::Session;
use crate::session::stream::Stream;

impl Session {
    /// Returns the credit of every stream, in the order of their ids.
    pub fn stream_credit(&self, now: Time) -> Vec<StreamCredit> {
        let credit = |(slot, stream): (StreamSlot, &Stream)| StreamCredit {
            stream: stream.id,
            unread: stream.recv_credit.unread(),
            window: stream.recv_credit.window(),
            unread_for: self.stalled_for(now, slot, Whose::Ours),
            room: stream.send_credit.room(),
            blocked_for: self.stalled_for(now, slot, Whose::Peers),
        };
        let mut all: Vec<StreamCredit> = self.streams.open().map(credit).collect();
        all.sort_unstable_by_key(|credit| credit.stream);
        all
    }

    fn stalled_for(&self, now: Time, slot: StreamSlot, reader: Whose) -> Option<Duration> {
        let key = self.key_of(slot);
        let since = self.account.stalls.since(key, reader).filter(|_| self.is_stalled(key, reader))?;
        Some(now.since(since))
    }

    /// Returns the number of streams that stand still because of this reader.
    pub(in crate::session) fn stalled(&self, reader: Whose) -> u64 {
        self.account.stalls.of(reader).filter(|key| self.is_stalled(*key, reader)).count() as u64
    }

    fn is_stalled(&self, key: DomainKey, reader: Whose) -> bool {
        let Some(stream) = self.streams.still(key) else { return false };
        match reader {
            Whose::Ours => stream.recv_credit.is_used_up(),
            Whose::Peers => {
                let blocked = |lane: &LaneSlot| self.outbox.lane(*lane).state == LaneState::Blocked;
                !stream.send_credit.is_open() && stream.lanes.iter().any(blocked)
            }
        }
    }

    /// Returns whether the reader could take something from the stream. Data that waits for a lost packet is not the
    /// reader's fault.
    pub(in crate::session) fn is_readable(&self, key: DomainKey) -> bool {
        self.streams.still(key).is_some_and(|stream| match &stream.content {
            Content::Bytes(halves) => halves.into.is_readable(),
            Content::Messages(halves) if stream.claimed => !halves.inbox.is_empty(),
            _ => !self.incoming.inbox.is_empty(),
        })
    }

    /// Reports streams that have stood still for long enough, once each.
    pub(in crate::session) fn tell_stalls(&mut self, now: Time) {
        if self.account.stalls.next().is_none_or(|at| at > now) {
            return;
        }
        for (key, reader) in self.account.stalls.take_due(now) {
            if !self.is_stalled(key, reader) {
                self.account.stalls.end(key, reader);
            } else if reader == Whose::Ours && !self.is_readable(key) {
                self.account.stalls.postpone(now, (key, reader));
            } else {
                self.tell_stall(key, reader);
            }
        }
    }

    fn tell_stall(&mut self, key: DomainKey, reader: Whose) {
        let Some(stream) = self.streams.still(key) else { return };
        self.chronicle.note(|| Note::Stalled {
            stream: stream.id,
            reader,
            unread: stream.recv_credit.unread(),
            window: stream.recv_credit.window(),
        });
        let event = match reader {
            Whose::Ours => {
                SessionEvent::ReaderStalled { stream: stream.id, unread: stream.recv_credit.unread() }
            }
            Whose::Peers => SessionEvent::SendBlocked(stream.id),
        };
        if self.account.stalls.on_told(&event) {
            self.accounting.events.push_back(event);
        }
    }
}
