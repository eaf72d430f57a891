//! Bookkeeping across all messages: tags, outcomes, counters and deadlines.

#[path = "../snapshot/accounting.rs"]
mod snapshot;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::send_item::{CONFIRM, NO_TAG, SendItem, TRACKED};
use crate::expected::Expected;
use crate::session::message::{DomainKey, Outcome, SessionEvent, TagSettings};
use crate::session::numbers::{LaneSlot, TagSlot};
use crate::session::stats::{Counters, SessionStats};
use crate::{MessageId, Time};

/// The place where a message with a tag or a lifetime is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session) enum MessagePlace {
    /// In a lane. `seq` counts the items the lane has ever held.
    Pending { lane: LaneSlot, seq: u64 },
    /// Sent at least once.
    Sent { key: DomainKey, number: u64 },
}

/// A token bucket that may go below zero by one message.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    tokens: i64,
    filled: Time,
}

impl Bucket {
    /// Adds the tokens gained until `now`. At most 100 ms' worth accumulate.
    fn fill(&mut self, now: Time) {
        let nanos = now.since(self.filled).as_nanos();
        let gained = nanos * u128::from(self.rate) / 1_000_000_000;
        if gained > 0 {
            let burst = i64::try_from(self.rate / 10).unwrap_or(i64::MAX).max(1);
            self.tokens = self.tokens.saturating_add(i64::try_from(gained).unwrap_or(i64::MAX)).min(burst);
            self.filled = now;
        }
    }

    fn open_at(&self) -> Time {
        let missing = u128::from((1 - self.tokens).max(0) as u64);
        let nanos = (missing * 1_000_000_000).div_ceil(u128::from(self.rate.max(1)));
        self.filled + std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[derive(Debug, Default)]
pub(in crate::session) struct TagState {
    pub(in crate::session) stream: u64,
    pub(in crate::session) tag: u64,
    pub(in crate::session) settings: TagSettings,
    pub(in crate::session) counters: Counters,
    bucket: Option<Bucket>,
    places: VecDeque<MessagePlace>,
    live: usize,
    used: bool,
}

#[derive(Debug, Default)]
pub(in crate::session) struct Accounting {
    pub(in crate::session) stats: SessionStats,
    pub(in crate::session) events: VecDeque<SessionEvent>,
    tags: Vec<TagState>,
    by_tag: BTreeMap<(u64, u64), TagSlot>,
    last_tag: Option<((u64, u64), TagSlot)>,
    deadlines: BinaryHeap<Reverse<(Time, MessagePlace)>>,
    mortal: usize,
    /// Tracked messages that were delivered and await TAKEN.
    unconfirmed: BTreeMap<(DomainKey, u64), MessageId>,
    /// Sent at least once and not resolved.
    pub(in crate::session) outstanding: u64,
}

/// Room for this many events is kept when none waits.
const EVENTS_KEPT: usize = 256;

impl Accounting {
    pub(in crate::session) fn pop_event(&mut self) -> Option<SessionEvent> {
        let event = self.events.pop_front()?;
        if self.events.is_empty() && self.events.capacity() > EVENTS_KEPT {
            self.events = VecDeque::new();
        }
        Some(event)
    }

    /// Returns the tag's slot, creating it if needed. None: there are more than `limit` tags in use.
    pub(in crate::session) fn tag(&mut self, stream: u64, tag: u64, limit: usize) -> Option<TagSlot> {
        let key = (stream, tag);
        if let Some((last, slot)) = self.last_tag
            && last == key
        {
            return Some(slot);
        }
        let slot = match self.by_tag.get(&key) {
            Some(slot) => *slot,
            None => self.new_tag(key, limit)?,
        };
        self.last_tag = Some((key, slot));
        Some(slot)
    }

    fn new_tag(&mut self, key: (u64, u64), limit: usize) -> Option<TagSlot> {
        let fresh = TagState { stream: key.0, tag: key.1, used: true, ..TagState::default() };
        let slot = if self.by_tag.len() < limit {
            self.tags.push(fresh);
            self.tags.len() - 1
        } else {
            let idle = |tag: &TagState| tag.live == 0 && tag.settings == TagSettings::default();
            let slot = self.tags.iter().position(idle)?;
            let old = &self.tags[slot];
            self.by_tag.remove(&(old.stream, old.tag));
            self.tags[slot] = fresh;
            slot
        };
        let slot = TagSlot(slot as u32);
        self.by_tag.insert(key, slot);
        Some(slot)
    }

    pub(in crate::session) fn find_tag(&self, stream: u64, tag: u64) -> Option<TagSlot> {
        self.by_tag.get(&(stream, tag)).copied()
    }

    /// Returns the tag in a slot that is known to be taken.
    #[track_caller]
    pub(in crate::session) fn held_tag(&self, slot: TagSlot) -> Option<&TagState> {
        self.tags.get(slot.index()).expected("a tag")
    }

    /// Returns the tag in a slot that is known to be taken.
    #[track_caller]
    fn held_tag_mut(&mut self, slot: TagSlot) -> Option<&mut TagState> {
        self.tags.get_mut(slot.index()).expected("a tag")
    }

    /// Returns the tag of a message, if it has one.
    #[inline]
    fn tag_of(&mut self, item: &SendItem) -> Option<&mut TagState> {
        if item.tag == NO_TAG { None } else { Some(&mut self.tags[item.tag.index()]) }
    }

    pub(in crate::session) fn tag_states(&self) -> impl Iterator<Item = &TagState> {
        self.tags.iter().filter(|tag| tag.used)
    }

    /// Resets the settings of a stream's tags when the stream is gone, so that their slots may be reused.
    pub(in crate::session) fn on_stream_gone(&mut self, stream: u64) {
        for slot in self.by_tag.range((stream, 0)..=(stream, u64::MAX)).map(|(_, slot)| slot.index()) {
            self.tags[slot].settings = TagSettings::default();
            self.tags[slot].bucket = None;
        }
    }

    pub(in crate::session) fn set_tag(&mut self, now: Time, slot: TagSlot, settings: TagSettings) {
        if let Some(tag) = self.held_tag_mut(slot) {
            tag.settings = settings;
            tag.bucket = settings.bandwidth.map(|rate| Bucket {
                rate,
                tokens: i64::try_from(rate / 10).unwrap_or(i64::MAX).max(1),
                filled: now,
            });
        }
    }

    pub(in crate::session) fn is_capped(&self, slot: TagSlot) -> bool {
        self.held_tag(slot).is_some_and(|tag| tag.bucket.is_some())
    }

    /// Returns when the tag's bandwidth limit lets the next message begin. None: it may begin now.
    pub(in crate::session) fn capped_until(&mut self, now: Time, slot: TagSlot) -> Option<Time> {
        let bucket = self.held_tag_mut(slot)?.bucket.as_mut()?;
        bucket.fill(now);
        (bucket.tokens <= 0).then(|| bucket.open_at())
    }

    /// Counts a message that was queued.
    #[inline]
    pub(in crate::session) fn on_queued(&mut self, item: &SendItem, place: MessagePlace) {
        self.stats.total.queued += 1;
        if let Some(tag) = self.tag_of(item) {
            tag.live += 1;
            tag.counters.queued += 1;
            Self::note(tag, place);
        }
        if item.expires != Time::MAX {
            self.mortal += 1;
            self.deadlines.push(Reverse((item.expires, place)));
        }
    }

    /// Notes that a waiting message with a tag has moved to another place.
    pub(in crate::session) fn on_moved(&mut self, item: &SendItem, place: MessagePlace) {
        if let Some(tag) = self.held_tag_mut(item.tag) {
            Self::note(tag, place);
        }
        if item.expires != Time::MAX {
            self.deadlines.push(Reverse((item.expires, place)));
        }
    }

    fn note(tag: &mut TagState, place: MessagePlace) {
        tag.places.push_back(place);
    }

    /// Thins out the tag's list of places once most of its messages are resolved. `keep` returns whether a place is
    /// still live.
    pub(in crate::session) fn thin_places(&mut self, slot: TagSlot, keep: impl Fn(&MessagePlace) -> bool) {
        let Some(tag) = self.held_tag_mut(slot) else { return };
        if tag.places.len() > 4 * tag.live + 64 {
            tag.places.retain(keep);
        }
    }

    /// Counts a message that is sent for the first time.
    #[inline]
    pub(in crate::session) fn on_begun(&mut self, item: &SendItem, key: DomainKey, number: u64) {
        self.outstanding += u64::from(item.count);
        self.stats.total.sent += u64::from(item.count);
        self.stats.total.sent_bytes += u64::from(item.length);
        let place = MessagePlace::Sent { key, number };
        if let Some(tag) = self.tag_of(item) {
            tag.counters.sent += 1;
            tag.counters.sent_bytes += u64::from(item.length);
            if let Some(bucket) = &mut tag.bucket {
                bucket.tokens -= i64::from(item.length.max(1));
            }
            Self::note(tag, place);
        }
        if item.expires != Time::MAX {
            self.deadlines.push(Reverse((item.expires, place)));
        }
    }

    /// Counts the outcome of a message that was sent.
    #[inline]
    pub(in crate::session) fn on_settled(
        &mut self,
        item: &SendItem,
        key: DomainKey,
        number: u64,
        outcome: Outcome,
    ) {
        self.outstanding -= u64::from(item.count);
        self.count(item, outcome);
        if item.has(CONFIRM) && outcome == Outcome::Delivered {
            if item.has(TRACKED) {
                self.unconfirmed.insert((key, number), item.id);
            }
        } else if item.has(TRACKED) {
            self.events.push_back(SessionEvent::Outcome(item.id, outcome));
        }
    }

    /// Counts the outcome of one message of a bundle that was given up.
    pub(in crate::session) fn on_one_settled(&mut self, length: u32, outcome: Outcome) {
        self.outstanding -= 1;
        self.stats.total.count(outcome, 1, u64::from(length));
    }

    /// Counts the outcome of a message that was never sent.
    pub(in crate::session) fn on_dropped(&mut self, item: &SendItem, outcome: Outcome) {
        self.count(item, outcome);
        if item.has(TRACKED) {
            self.events.push_back(SessionEvent::Outcome(item.id, outcome));
        }
    }

    #[inline]
    fn count(&mut self, item: &SendItem, outcome: Outcome) {
        let (messages, bytes) = (u64::from(item.count), u64::from(item.length));
        self.stats.total.count(outcome, messages, bytes);
        if let Some(tag) = self.tag_of(item) {
            tag.live -= 1;
            tag.counters.count(outcome, messages, bytes);
        }
        if item.expires != Time::MAX {
            self.mortal -= 1;
        }
    }

    /// Returns every place where messages of the tag may be, oldest first.
    pub(in crate::session) fn places(&self, slot: TagSlot) -> impl Iterator<Item = MessagePlace> {
        self.held_tag(slot).into_iter().flat_map(|tag| tag.places.iter().copied())
    }

    /// Returns the same as [`Accounting::places`] and empties the list.
    pub(in crate::session) fn take_places(&mut self, slot: TagSlot) -> VecDeque<MessagePlace> {
        self.held_tag_mut(slot).map(|tag| std::mem::take(&mut tag.places)).unwrap_or_default()
    }

    /// Removes the earliest deadline if it has passed, and returns its message's place.
    pub(in crate::session) fn pop_deadline(&mut self, now: Time) -> Option<MessagePlace> {
        let Reverse((at, place)) = *self.deadlines.peek()?;
        if at > now {
            return None;
        }
        self.deadlines.pop();
        Some(place)
    }

    pub(in crate::session) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    /// Thins out the deadlines once most of their messages are resolved. `keep` returns whether a place is still live.
    pub(in crate::session) fn thin_deadlines(&mut self, keep: impl Fn(&MessagePlace) -> bool) {
        if self.deadlines.len() > 4 * self.mortal + 256 {
            self.deadlines.retain(|Reverse((_, place))| keep(place));
        }
    }

    pub(in crate::session) fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    pub(in crate::session) fn on_taken(&mut self, key: DomainKey, first: u64, end: u64) {
        while let Some((at, id)) =
            self.unconfirmed.range((key, first)..(key, end)).next().map(|(at, id)| (*at, *id))
        {
            self.unconfirmed.remove(&at);
            self.stats.total.taken += 1;
            self.events.push_back(SessionEvent::Outcome(id, Outcome::Taken));
        }
    }

    pub(in crate::session) fn end(&mut self) {
        for (_, id) in std::mem::take(&mut self.unconfirmed) {
            self.events.push_back(SessionEvent::Outcome(id, Outcome::Unknown));
        }
        self.deadlines.clear();
    }
}
