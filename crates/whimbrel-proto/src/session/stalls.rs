//! Streams that stand still for want of credit, and who is told of it.

use std::time::Duration;

use super::Session;
use super::lane::LaneState;
use super::message::{DomainKey, SessionEvent};
use super::stream::Stream;
use crate::{StreamId, Time};

/// A stream that stands still for so long has stalled.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whose reader holds the stream up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Peers,
}

#[derive(Clone, Copy, Debug)]
struct Stall {
    key: DomainKey,
    reader: Whose,
    since: Time,
    /// When to tell of it; never again once that was done.
    tell: Time,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stalls(Vec<Stall>);

impl Stalls {
    pub(super) fn begin(&mut self, now: Time, key: DomainKey, reader: Whose) {
        if self.since(key, reader).is_none() {
            self.0.push(Stall { key, reader, since: now, tell: now + PATIENCE });
        }
    }

    pub(super) fn end(&mut self, key: DomainKey, reader: Whose) {
        if !self.0.is_empty() {
            self.0.retain(|stall| (stall.key, stall.reader) != (key, reader));
        }
    }

    /// The stream is gone.
    pub(super) fn forget(&mut self, key: DomainKey) {
        self.end(key, Whose::Ours);
        self.end(key, Whose::Peers);
    }

    fn since(&self, key: DomainKey, reader: Whose) -> Option<Time> {
        let found = self.0.iter().find(|stall| (stall.key, stall.reader) == (key, reader));
        found.map(|stall| stall.since)
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.iter().map(|stall| stall.tell).filter(|at| *at < Time::MAX).min()
    }

    pub(super) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

/// The credit of one stream, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCredit {
    /// Which.
    pub stream: StreamId,
    /// Bytes that came and were not read, with what each message counts beside its length.
    pub unread: u64,
    /// The window granted to the peer: bytes it may have on their way and unread.
    pub window: u64,
    /// How long the peer has been out of credit because nobody reads here. None: it is not.
    pub unread_for: Option<Duration>,
    /// Bytes this end may send now.
    pub room: u64,
    /// How long something has waited here for the peer's credit. None: nothing does.
    pub blocked_for: Option<Duration>,
}

impl Session {
    /// Who holds credit: figures of every stream, in the order of their ids.
    pub fn stream_credit(&self, now: Time) -> Vec<StreamCredit> {
        let slots = self.streams.slots().filter_map(|slot| Some((slot, self.streams.at(slot)?)));
        let credit = |(slot, stream): (u32, &Stream)| StreamCredit {
            stream: stream.id,
            unread: stream.recv_credit.unread(),
            window: stream.recv_credit.window(),
            unread_for: self.stalled_for(now, slot, Whose::Ours),
            room: stream.send_credit.room(),
            blocked_for: self.stalled_for(now, slot, Whose::Peers),
        };
        let mut all: Vec<StreamCredit> = slots.map(credit).collect();
        all.sort_unstable_by_key(|credit| credit.stream);
        all
    }

    fn stalled_for(&self, now: Time, slot: u32, reader: Whose) -> Option<Duration> {
        let key = self.key_of(slot);
        let since = self.stalls.since(key, reader).filter(|_| self.is_stalled(key, reader))?;
        Some(now.since(since))
    }

    /// Streams that stand still, by whose reader holds them up.
    pub(super) fn stalled(&self, reader: Whose) -> u64 {
        let of_theirs = self.stalls.0.iter().filter(|stall| stall.reader == reader);
        of_theirs.filter(|stall| self.is_stalled(stall.key, reader)).count() as u64
    }

    fn is_stalled(&self, key: DomainKey, reader: Whose) -> bool {
        let Some(stream) = self.streams.by_key(key) else { return false };
        match reader {
            Whose::Ours => stream.recv_credit.is_used_up(),
            Whose::Peers => {
                let blocked = |lane: &u32| self.outbox.lane(*lane).state == LaneState::Blocked;
                !stream.send_credit.is_open() && stream.lanes.iter().any(blocked)
            }
        }
    }

    /// There is something of the stream that its reader could take: what waits for a lost packet is not the reader's fault.
    pub(super) fn is_readable(&self, key: DomainKey) -> bool {
        self.streams.by_key(key).is_some_and(|stream| match &stream.bytes_in {
            Some(half) => half.is_readable(),
            None if stream.claimed => !stream.inbox.is_empty(),
            None => !self.inbox.is_empty(),
        })
    }

    /// Tells of streams that have stood still for long enough, once each.
    pub(super) fn tell_stalls(&mut self, now: Time) {
        if self.stalls.next().is_none_or(|at| at > now) {
            return;
        }
        let mut stalls = std::mem::take(&mut self.stalls);
        stalls.0.retain(|stall| stall.tell > now || self.is_stalled(stall.key, stall.reader));
        for stall in stalls.0.iter_mut().filter(|stall| stall.tell <= now) {
            let waits = stall.reader == Whose::Ours && !self.is_readable(stall.key);
            stall.tell = if waits { now + PATIENCE } else { Time::MAX };
            if !waits {
                self.tell_stall(stall.key, stall.reader);
            }
        }
        self.stalls = stalls;
    }

    fn tell_stall(&mut self, key: DomainKey, reader: Whose) {
        let Some(stream) = self.streams.by_key(key) else { return };
        let event = match reader {
            Whose::Ours => {
                SessionEvent::ReaderStalled { stream: stream.id, unread: stream.recv_credit.unread() }
            }
            Whose::Peers => SessionEvent::SendBlocked(stream.id),
        };
        if !self.accounting.events.contains(&event) {
            self.accounting.events.push_back(event);
        }
    }
}
