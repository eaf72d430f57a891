//! Streams that stand still for want of credit, and when each is reported.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::expected::Expected;
use crate::session::message::{DomainKey, SessionEvent};
use crate::{StreamId, Time};

/// How long a stream must stand still to count as stalled.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whose reader holds the stream up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    Ours,
    Peers,
}

/// A stream, and whose reader holds it up.
type Who = (DomainKey, Whose);

#[derive(Clone, Copy, Debug)]
struct Stall {
    since: Time,
    /// Its place in the order in which stalls began.
    turn: u64,
    /// When to report it. None: that was done.
    tell: Option<Time>,
}

/// The streams that stand still, each with the end whose reader holds it up. A peer can make every stream stand still,
/// so work for one of them must not look at the others.
#[derive(Debug, Default)]
pub(in crate::session) struct Stalls(
    /// In a box, since in most sessions no stream ever stands still.
    Option<Box<StallTable>>,
);

#[derive(Debug, Default)]
struct StallTable {
    all: BTreeMap<Who, Stall>,
    /// Those to be reported, by time and turn.
    due: BTreeMap<(Time, u64), Who>,
    /// The number of stalls that have begun.
    begun: u64,
    /// The reports that the application has not taken yet.
    untaken: BTreeSet<(StreamId, Option<u64>)>,
}

impl Stalls {
    pub(in crate::session) fn begin(&mut self, now: Time, key: DomainKey, reader: Whose) {
        let stalls = self.0.get_or_insert_default();
        if let Entry::Vacant(place) = stalls.all.entry((key, reader)) {
            let (tell, turn) = (now + PATIENCE, stalls.begun);
            place.insert(Stall { since: now, turn, tell: Some(tell) });
            stalls.due.insert((tell, turn), (key, reader));
            stalls.begun += 1;
        }
    }

    /// Forgets a stall, if there is one. Returns whether it was reported.
    #[inline]
    pub(in crate::session) fn end(&mut self, key: DomainKey, reader: Whose) -> bool {
        let Some(stalls) = &mut self.0 else { return false };
        let Some(Stall { turn, tell, .. }) = stalls.all.remove(&(key, reader)) else { return false };
        if let Some(tell) = tell {
            stalls.due.remove(&(tell, turn));
        }
        tell.is_none()
    }

    /// Forgets a stream that is gone.
    pub(in crate::session) fn forget(&mut self, key: DomainKey) {
        self.end(key, Whose::Ours);
        self.end(key, Whose::Peers);
    }

    pub(in crate::session) fn since(&self, key: DomainKey, reader: Whose) -> Option<Time> {
        self.0.as_ref()?.all.get(&(key, reader)).map(|stall| stall.since)
    }

    /// Returns the streams that stand still because of this reader.
    pub(in crate::session) fn of(&self, reader: Whose) -> impl Iterator<Item = DomainKey> {
        let all = self.0.iter().flat_map(|stalls| stalls.all.keys());
        all.filter(move |(_, whose)| *whose == reader).map(|(key, _)| *key)
    }

    #[inline]
    pub(in crate::session) fn next(&self) -> Option<Time> {
        let ((at, _), _) = self.0.as_ref()?.due.first_key_value()?;
        Some(*at)
    }

    /// Takes those that are to be reported now, in the order in which they began.
    pub(in crate::session) fn take_due(&mut self, now: Time) -> Vec<Who> {
        let Some(stalls) = &mut self.0 else { return Vec::new() };
        let mut due = Vec::new();
        while let Some(first) = stalls.due.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, turn), who) = first.remove_entry();
            due.push((turn, who));
            if let Some(stall) = stalls.all.get_mut(&who).expected("a stall that is due") {
                stall.tell = None;
            }
        }
        due.sort_unstable();
        due.into_iter().map(|(_, who)| who).collect()
    }

    /// Postpones the report of one that was due.
    pub(in crate::session) fn postpone(&mut self, now: Time, who: Who) {
        let Some(stalls) = &mut self.0 else { return };
        if let Some(stall) = stalls.all.get_mut(&who).expected("a stall that was due") {
            stall.tell = Some(now + PATIENCE);
            stalls.due.insert((now + PATIENCE, stall.turn), who);
        }
    }

    /// Notes that a report is handed to the application. Returns false if the same one still waits there.
    pub(in crate::session) fn on_told(&mut self, event: &SessionEvent) -> bool {
        report_of(event).is_none_or(|report| self.0.get_or_insert_default().untaken.insert(report))
    }

    /// Handles that the application has taken a report.
    pub(in crate::session) fn on_taken(&mut self, event: &SessionEvent) {
        if let (Some(stalls), Some(report)) = (&mut self.0, report_of(event)) {
            stalls.untaken.remove(&report);
        }
    }

    pub(in crate::session) fn clear(&mut self) {
        self.0 = None;
    }
}

fn report_of(event: &SessionEvent) -> Option<(StreamId, Option<u64>)> {
    match event {
        SessionEvent::ReaderStalled { stream, unread } => Some((*stream, Some(*unread))),
        SessionEvent::SendBlocked(stream) => Some((*stream, None)),
        _ => None,
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
