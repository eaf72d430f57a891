//! Streams that stand still for want of credit, and when each is reported.

use std::time::Duration;

use crate::session::message::DomainKey;
use crate::{StreamId, Time};

/// How long a stream must stand still to count as stalled.
pub(in crate::session) const PATIENCE: Duration = Duration::from_secs(1);

/// Whose reader holds the stream up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Whose {
    Ours,
    Peers,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Stall {
    pub(in crate::session) key: DomainKey,
    pub(in crate::session) reader: Whose,
    pub(in crate::session) since: Time,
    /// When to report it. `Time::MAX` once that was done.
    pub(in crate::session) tell: Time,
}

/// The streams that stand still, each with the end whose reader holds it up.
#[derive(Debug, Default)]
pub(in crate::session) struct Stalls(pub(in crate::session) Vec<Stall>);

impl Stalls {
    pub(in crate::session) fn begin(&mut self, now: Time, key: DomainKey, reader: Whose) {
        if self.since(key, reader).is_none() {
            self.0.push(Stall { key, reader, since: now, tell: now + PATIENCE });
        }
    }

    pub(in crate::session) fn end(&mut self, key: DomainKey, reader: Whose) {
        if !self.0.is_empty() {
            self.0.retain(|stall| (stall.key, stall.reader) != (key, reader));
        }
    }

    /// Forgets a stream that is gone.
    pub(in crate::session) fn forget(&mut self, key: DomainKey) {
        self.end(key, Whose::Ours);
        self.end(key, Whose::Peers);
    }

    pub(in crate::session) fn since(&self, key: DomainKey, reader: Whose) -> Option<Time> {
        let found = self.0.iter().find(|stall| (stall.key, stall.reader) == (key, reader));
        found.map(|stall| stall.since)
    }

    pub(in crate::session) fn next(&self) -> Option<Time> {
        self.0.iter().map(|stall| stall.tell).filter(|at| *at < Time::MAX).min()
    }

    pub(in crate::session) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

/// The credit of one stream, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCredit {
    /// The stream.
    pub stream: StreamId,
    /// Bytes received and not read, including what each message counts beside its length.
    pub unread: u64,
    /// The window granted to the peer, bytes: what it may have in flight and unread.
    pub window: u64,
    /// How long the peer has been out of credit because nobody reads here. None: it is not.
    pub unread_for: Option<Duration>,
    /// Bytes this end may send now.
    pub room: u64,
    /// How long data has waited here for credit from the peer. None: none does.
    pub blocked_for: Option<Duration>,
}
