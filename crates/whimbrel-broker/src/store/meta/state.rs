//! The content of the database in memory, and the changes that have to be written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use whimbrel_pubsub::coverage::{Coverage, MOST_RANGES, Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin, Publication};

use super::error::MetaError;
use super::limits::{MOST_ORIGINS_SEEN, MOST_SUBSCRIPTIONS};
use super::outbound::Outbound;
use super::session::Session;
use super::subscription::{DurableSubscription, SubscriptionName, Tombstone};
use super::tombstones::Tombstones;
use super::values::{ValueRow, Values};
use crate::durable::succession::Known;
use crate::durable::wanted::wanted;

/// The most rows that one transaction writes.
const MOST_ROWS: usize = 10_000;

type CoverageKey = (SubscriptionName, ChannelId, Origin);
/// A session and a packet identifier.
type IdentifierKey = (Vec<u8>, u16);

/// All but the last values.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) broker: Option<BrokerId>,
    subscriptions: BTreeMap<SubscriptionName, Held>,
    tombstones: Tombstones,
    /// The channels of those that were ended in this run.
    ended_in: BTreeMap<SubscriptionName, Vec<ChannelId>>,
    /// Memories that gave way to others, and are to be removed from the database.
    given_way: BTreeSet<SubscriptionName>,
    origins: BTreeMap<(ChannelId, Origin), u64>,
    dirty_coverage: BTreeSet<CoverageKey>,
    dirty_origins: BTreeSet<(ChannelId, Origin)>,
    pub(super) values: Values,
    /// When each session ends.
    sessions: BTreeMap<Vec<u8>, u64>,
    dirty_sessions: BTreeMap<Vec<u8>, Session>,
    /// Messages at QoS 2 that came, or were released, and are not written yet.
    received: BTreeMap<IdentifierKey, Option<Publication>>,
    /// Messages at QoS 2 to clients whose state is not written yet; `None` for one that is complete.
    outbound: BTreeMap<IdentifierKey, Option<Outbound>>,
}

#[derive(Debug)]
struct Held {
    subscription: Arc<DurableSubscription>,
    /// The digest of its selection.
    selects: u64,
    coverage: Coverage,
}

/// The changes that one transaction writes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) coverage: Vec<(CoverageKey, Ranges)>,
    pub(super) origins: Vec<((ChannelId, Origin), u64)>,
    pub(super) values: Vec<ValueRow>,
    pub(super) marks: Vec<(ChannelId, u64)>,
    pub(super) sessions: Vec<(Vec<u8>, Session)>,
    pub(super) received: Vec<(IdentifierKey, Option<Publication>)>,
    pub(super) outbound: Vec<(IdentifierKey, Option<Outbound>)>,
    /// Subscriptions of which it is not remembered any more that they were ended.
    pub(super) given_way: Vec<SubscriptionName>,
}

impl State {
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = &Arc<DurableSubscription>> {
        self.subscriptions.values().map(|held| &held.subscription)
    }

    pub(super) fn names(&self) -> Vec<SubscriptionName> {
        self.subscriptions.keys().cloned().collect()
    }

    pub(super) fn subscription(&self, name: &SubscriptionName) -> Option<&Arc<DurableSubscription>> {
        self.subscriptions.get(name).map(|held| &held.subscription)
    }

    /// Whether a subscription may be kept, and whether it begins with no coverage though there is one.
    pub(super) fn check(&self, new: &DurableSubscription) -> Result<bool, MetaError> {
        new.check()?;
        let outdated = |known| MetaError::Outdated { name: new.name.clone(), given: new.generation, known };
        match (self.subscription(&new.name), self.tombstones.find(&new.name)) {
            (Some(former), _) if former.owner != new.owner => Err(MetaError::Owner(new.name.clone())),
            (Some(former), _) if former.generation > new.generation => Err(outdated(former.generation)),
            (Some(former), _) => Ok(!former.selects_as(new)),
            (None, Some(ended)) if ended.generation >= new.generation => Err(outdated(ended.generation)),
            (None, _) if self.subscriptions.len() >= MOST_SUBSCRIPTIONS => {
                Err(MetaError::TooMany { what: "durable subscriptions", most: MOST_SUBSCRIPTIONS })
            }
            (None, _) => Ok(false),
        }
    }

    pub(super) fn subscribe(&mut self, new: &DurableSubscription, is_changed: bool) {
        self.tombstones.remove(&new.name);
        self.given_way.remove(&new.name);
        self.ended_in.remove(&new.name);
        let (subscription, selects) = (Arc::new(new.clone()), new.selects());
        let former = self.subscriptions.remove(&new.name).filter(|_| !is_changed);
        let coverage = former.map(|held| held.coverage).unwrap_or_default();
        self.subscriptions.insert(new.name.clone(), Held { subscription, selects, coverage });
        if is_changed {
            self.clean(&new.name);
        }
    }

    /// Whether it would be remembered until then that a subscription was ended.
    pub(super) fn has_room_for_tombstone(&self, name: &SubscriptionName, ends_ms: u64) -> bool {
        self.tombstones.has_room(name, ends_ms)
    }

    /// Ends a subscription. Another memory may give way to that of it.
    pub(super) fn unsubscribe(&mut self, name: &SubscriptionName, tombstone: Tombstone) {
        if let Some(held) = self.subscriptions.remove(name) {
            self.ended_in.insert(name.clone(), held.subscription.channels.clone());
        }
        self.clean(name);
        self.given_way.remove(name);
        for other in self.tombstones.insert(name, tombstone) {
            self.ended_in.remove(&other);
            self.given_way.insert(other);
        }
    }

    /// The channels of a subscription that is there, or was ended in this run.
    pub(super) fn channels_of(&self, name: &SubscriptionName) -> Option<&[ChannelId]> {
        let alive = self.subscriptions.get(name).map(|held| &held.subscription.channels);
        alive.or_else(|| self.ended_in.get(name)).map(Vec::as_slice)
    }

    /// Whether a subscription is there and selects this, by the digest.
    pub(super) fn has_selection(&self, name: &SubscriptionName, selects: u64) -> bool {
        self.subscriptions.get(name).is_some_and(|held| held.selects == selects)
    }

    pub(super) fn tombstone(&self, name: &SubscriptionName) -> Option<Tombstone> {
        self.tombstones.find(name)
    }

    pub(super) fn ended(&self, wall_ms: u64) -> Vec<SubscriptionName> {
        self.tombstones.ended(wall_ms)
    }

    pub(super) fn forget_tombstones(&mut self, names: &[SubscriptionName]) {
        for name in names {
            self.tombstones.remove(name);
            self.ended_in.remove(name);
        }
    }

    pub(super) fn coverage(&self, name: &SubscriptionName) -> Option<&Coverage> {
        self.subscriptions.get(name).map(|held| &held.coverage)
    }

    pub(super) fn cover(
        &mut self,
        name: &SubscriptionName,
        channel: ChannelId,
        origin: Origin,
        range: Range,
    ) -> Result<Option<Range>, MetaError> {
        let held = self.subscriptions.get_mut(name).ok_or_else(|| MetaError::Unknown(name.clone()))?;
        let closed = held.coverage.entry(channel)?.insert(origin, range)?;
        self.dirty_coverage.insert((name.clone(), channel, origin));
        Ok(closed)
    }

    /// Covers a range unless a gap would have to be closed for it: what another broker tells closes none.
    pub(super) fn add(
        &mut self,
        name: &SubscriptionName,
        channel: ChannelId,
        origin: Origin,
        range: Range,
    ) -> Result<(), MetaError> {
        let covered = self.coverage(name).and_then(|coverage| coverage.of(channel)?.of(origin));
        if covered.is_some_and(|covered| covered.covers(range)) {
            return Ok(());
        }
        let is_full = covered.is_some_and(|covered| {
            let mut more = covered.clone();
            more.insert(range);
            more.len() > MOST_RANGES
        });
        if is_full {
            return Ok(());
        }
        self.cover(name, channel, origin, range).map(drop)
    }

    /// Takes a coverage from the database. Returns whether there is a subscription for it with room.
    pub(super) fn load_coverage(
        &mut self,
        name: &SubscriptionName,
        channel: ChannelId,
        origin: Origin,
        ranges: &Ranges,
    ) -> bool {
        ranges.iter().all(|range| self.cover(name, channel, origin, range).is_ok())
    }

    pub(super) fn uncovered(&self, channel: ChannelId, origin: Origin, range: Range) -> u64 {
        let all = self.subscriptions.values().filter(|held| held.subscription.channels.contains(&channel));
        let covered = all.map(|held| held.coverage.of(channel).and_then(|coverage| coverage.of(origin)));
        wanted(range, covered).count()
    }

    /// The knowledge about a name.
    pub(super) fn known(&self, name: &SubscriptionName) -> Known {
        match (self.subscriptions.get(name), self.tombstones.find(name)) {
            (Some(held), _) => Known::Alive(held.subscription.life()),
            (None, Some(tombstone)) => Known::Ended(tombstone.life()),
            (None, None) => Known::Nothing,
        }
    }

    /// How many more subscriptions can be kept.
    pub(super) fn room(&self) -> usize {
        MOST_SUBSCRIPTIONS.saturating_sub(self.subscriptions.len())
    }

    /// The next names behind `after` of subscriptions that are there or were ended.
    pub(super) fn names_after(&self, after: Option<&SubscriptionName>, most: usize) -> Vec<SubscriptionName> {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let alive = self.subscriptions.range(from).take(most).map(|(name, _)| name);
        let ended = self.tombstones.names_after(after).take(most);
        let all: BTreeSet<_> = alive.chain(ended).collect();
        all.into_iter().take(most).cloned().collect()
    }

    pub(super) fn see(&mut self, channel: ChannelId, origin: Origin, highest: u64) -> Result<(), MetaError> {
        let key = (channel, origin);
        let known = self.origins.get(&key).copied();
        if known.is_none() && self.origins.len() == MOST_ORIGINS_SEEN {
            return Err(MetaError::TooMany { what: "origins", most: MOST_ORIGINS_SEEN });
        }
        if known.is_none_or(|known| known < highest) {
            self.origins.insert(key, highest);
            self.dirty_origins.insert(key);
        }
        Ok(())
    }

    pub(super) fn seen(&self, channel: ChannelId) -> Vec<(Origin, u64)> {
        let of_channel = self.origins.iter().filter(|((at, _), _)| *at == channel);
        of_channel.map(|((_, origin), highest)| (*origin, *highest)).collect()
    }

    pub(super) fn forget(&mut self, channel: ChannelId, origin: Origin) {
        self.origins.remove(&(channel, origin));
        self.dirty_origins.remove(&(channel, origin));
        self.dirty_coverage.retain(|(_, at, of)| (*at, *of) != (channel, origin));
        for held in self.subscriptions.values_mut() {
            if held.coverage.of(channel).is_some()
                && let Ok(coverage) = held.coverage.entry(channel)
            {
                coverage.forget(origin);
            }
        }
    }

    pub(super) fn put_session(&mut self, name: &[u8], session: &Session) {
        self.sessions.insert(name.to_vec(), session.ends());
        self.dirty_sessions.insert(name.to_vec(), session.clone());
    }

    pub(super) fn has_session(&self, name: &[u8]) -> bool {
        self.sessions.contains_key(name)
    }

    /// The number of sessions whose names begin so.
    pub(super) fn sessions_of(&self, begin: &[u8]) -> usize {
        let from = (Bound::Included(begin), Bound::Unbounded);
        self.sessions.range::<[u8], _>(from).take_while(|(name, _)| name.starts_with(begin)).count()
    }

    /// The number of sessions.
    pub(super) fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions whose time was over at `wall_ms`.
    pub(super) fn ended_sessions(&self, wall_ms: u64) -> Vec<Vec<u8>> {
        let ended = self.sessions.iter().filter(|(_, ends)| **ends <= wall_ms);
        ended.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn put_received(&mut self, name: &[u8], id: u16, publication: Option<Publication>) {
        self.received.insert((name.to_vec(), id), publication);
    }

    pub(super) fn put_outbound(&mut self, name: &[u8], id: u16, outbound: Option<Outbound>) {
        self.outbound.insert((name.to_vec(), id), outbound);
    }

    /// Forgets a session, and subscriptions of which nothing is remembered.
    pub(super) fn remove_session(&mut self, session: Option<&[u8]>, subscriptions: &[SubscriptionName]) {
        if let Some(name) = session {
            self.sessions.remove(name);
            self.dirty_sessions.remove(name);
            self.received.retain(|(of, _), _| of != name);
            self.outbound.retain(|(of, _), _| of != name);
        }
        for name in subscriptions {
            self.subscriptions.remove(name);
            self.clean(name);
        }
    }

    /// Takes what has changed, as much as one transaction writes; `None` if nothing has.
    pub(super) fn take_changes(&mut self) -> Option<Changes> {
        let mut changes = Changes::default();
        while changes.rows() < MOST_ROWS
            && let Some(key) = self.dirty_coverage.pop_first()
        {
            let coverage = self.coverage(&key.0).and_then(|coverage| coverage.of(key.1)?.of(key.2));
            changes.coverage.extend(coverage.cloned().map(|ranges| (key, ranges)));
        }
        while changes.rows() < MOST_ROWS
            && let Some(key) = self.dirty_origins.pop_first()
        {
            changes.origins.extend(self.origins.get(&key).map(|highest| (key, *highest)));
        }
        while changes.rows() < MOST_ROWS
            && let Some(change) = self.values.take_row()
        {
            changes.values.push(change);
        }
        changes.marks = self.values.take_marks();
        while changes.rows() < MOST_ROWS
            && let Some(change) = self.dirty_sessions.pop_first()
        {
            changes.sessions.push(change);
        }
        while changes.rows() < MOST_ROWS
            && let Some(change) = self.received.pop_first()
        {
            changes.received.push(change);
        }
        // Behind coverage: what says that a client has a message is never on disk before the message is covered.
        while changes.rows() < MOST_ROWS
            && let Some(change) = self.outbound.pop_first()
        {
            changes.outbound.push(change);
        }
        while changes.rows() < MOST_ROWS
            && let Some(name) = self.given_way.pop_first()
        {
            changes.given_way.push(name);
        }
        (changes.rows() > 0).then_some(changes)
    }

    /// Takes back changes that could not be written. What has changed since then is newer.
    pub(super) fn put_back(&mut self, changes: Changes) {
        self.dirty_coverage.extend(changes.coverage.into_iter().map(|(key, _)| key));
        self.dirty_origins.extend(changes.origins.into_iter().map(|(key, _)| key));
        self.given_way.extend(changes.given_way);
        self.values.put_back(changes.values, &changes.marks);
        // Of a session that ended meanwhile, nothing is written any more.
        for (name, session) in changes.sessions {
            if self.sessions.contains_key(&name) {
                self.dirty_sessions.entry(name).or_insert(session);
            }
        }
        for (key, publication) in changes.received {
            if self.sessions.contains_key(&key.0) {
                self.received.entry(key).or_insert(publication);
            }
        }
        for (key, outbound) in changes.outbound {
            if self.sessions.contains_key(&key.0) {
                self.outbound.entry(key).or_insert(outbound);
            }
        }
    }

    /// Forgets all changes: the state was just read, and need not be written.
    pub(super) fn forget_changes(&mut self) {
        self.dirty_coverage.clear();
        self.dirty_origins.clear();
        self.dirty_sessions.clear();
        self.values.forget_changes();
    }

    fn clean(&mut self, name: &SubscriptionName) {
        self.dirty_coverage.retain(|(of, _, _)| of != name);
    }
}

impl Changes {
    fn rows(&self) -> usize {
        let facts = self.coverage.len() + self.origins.len() + self.values.len() + self.marks.len();
        facts + self.sessions.len() + self.received.len() + self.outbound.len() + self.given_way.len()
    }
}
