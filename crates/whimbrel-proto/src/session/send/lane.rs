//! Lanes, where messages wait for their first transmission, and the choice of the next lane.

#[path = "../snapshot/lane.rs"]
pub(in crate::session) mod snapshot;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use super::gather::Gathering;
use super::send_item::{DEAD, Portion, SendItem};
use crate::Time;
use crate::session::message::DomainKey;
use crate::session::numbers::{LaneSlot, TagSlot};
use crate::time::nanos;
use crate::wire::data::DEFAULT_PRIORITY;

/// Lanes up to which memory grows by one lane at a time. Most sessions have one or two.
const FEW: usize = 4;

/// Whether a lane may be served, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum LaneState {
    /// It has nothing to send.
    Idle,
    /// It has something to send and may be picked.
    Active,
    /// Credit or the span of message numbers is used up.
    Blocked,
    /// The bandwidth limit of its tag blocks it until this time.
    Capped(Time),
    /// It is not in use.
    Closed,
}

impl LaneState {
    fn is_capped(self) -> bool {
        matches!(self, Self::Capped(_))
    }
}

/// A first-in-first-out queue. There is one for each sequenced domain, one for each priority (and bandwidth-limited
/// tag) of an unsequenced domain, and one for each byte stream.
#[derive(Debug)]
pub(in crate::session) struct Lane {
    pub(in crate::session) key: DomainKey,
    /// The priority of all its messages. `None`: the domain is sequenced, and the lane holds messages of all
    /// priorities.
    pub(in crate::session) priority: Option<u8>,
    /// The bandwidth-limited tag whose messages alone it holds.
    pub(in crate::session) tag: TagSlot,
    pub(in crate::session) bytes: bool,
    pub(in crate::session) state: LaneState,
    queue: VecDeque<SendItem>,
    /// Messages gathered behind the queue.
    gathering: Gathering,
    /// How many items have ever left the front, which is the sequence number of the front item.
    base: u64,
    /// Number of waiting messages.
    live: usize,
    /// Number of a message that was begun and has parts left to send.
    pub(in crate::session) partial: Option<u64>,
    urgent: BTreeMap<u8, u32>,
    served: Time,
    turn: u64,
}

impl Lane {
    /// Returns the highest priority waiting. A message above the default priority also lifts the messages before it.
    fn priority(&self) -> u8 {
        if let Some(priority) = self.priority {
            return priority;
        }
        match self.urgent.last_key_value() {
            None => DEFAULT_PRIORITY,
            Some((highest, _)) if *highest > DEFAULT_PRIORITY => *highest,
            Some((highest, _)) => {
                let others: u32 = self.urgent.values().sum();
                if others as usize >= self.live { *highest } else { DEFAULT_PRIORITY }
            }
        }
    }

    #[inline]
    fn count_priority(&mut self, priority: u8, messages: u32, up: bool) {
        if self.priority.is_none() && priority != DEFAULT_PRIORITY {
            self.count_urgent(priority, messages, up);
        }
    }

    fn count_urgent(&mut self, priority: u8, messages: u32, up: bool) {
        let count = self.urgent.entry(priority).or_insert(0);
        *count = if up { *count + messages } else { count.saturating_sub(messages) };
        if *count == 0 {
            self.urgent.remove(&priority);
        }
    }

    /// Moves the gathered messages into the queue.
    #[inline]
    pub(in crate::session) fn settle(&mut self) {
        if let Some(bundle) = self.gathering.close() {
            self.queue.push_back(bundle);
        }
    }

    /// Returns the first item in the queue.
    #[inline]
    pub(in crate::session) fn front(&self) -> Option<&SendItem> {
        self.queue.front()
    }

    #[inline]
    pub(in crate::session) fn second(&self) -> Option<&SendItem> {
        self.queue.get(1)
    }

    /// Returns how many messages wait.
    pub(in crate::session) fn waiting(&self) -> usize {
        self.live
    }

    pub(in crate::session) fn is_empty(&self) -> bool {
        self.live == 0 && self.partial.is_none()
    }

    pub(in crate::session) fn find(&self, seq: u64) -> Option<&SendItem> {
        let index = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        self.queue.get(index).filter(|item| !item.has(DEAD))
    }

    pub(in crate::session) fn seqs(&self) -> std::ops::Range<u64> {
        self.base..self.base + self.queue.len() as u64
    }
}

/// All lanes, and totals over them.
#[derive(Debug)]
pub(in crate::session) struct Outbox {
    lanes: Vec<Lane>,
    active: Vec<LaneSlot>,
    turn: u64,
    ageing: u64,
    messages: usize,
    bytes: u64,
    /// Number of lanes that wait for credit.
    blocked: usize,
    /// Number of lanes that wait for their tag's bandwidth limit.
    capped: usize,
    /// Closed lanes, the first of which is used again first. Some may be in use again, or gone.
    free: BinaryHeap<Reverse<LaneSlot>>,
    /// A sequence number beyond those of all closed lanes.
    next_base: u64,
}

impl Outbox {
    pub(in crate::session) fn new(ageing: Duration) -> Self {
        Self {
            lanes: Vec::new(),
            active: Vec::new(),
            turn: 0,
            ageing: nanos(ageing),
            messages: 0,
            bytes: 0,
            blocked: 0,
            capped: 0,
            free: BinaryHeap::new(),
            next_base: 0,
        }
    }

    pub(in crate::session) fn open(
        &mut self,
        key: DomainKey,
        priority: Option<u8>,
        tag: TagSlot,
        bytes: bool,
    ) -> LaneSlot {
        let lane = Lane {
            key,
            priority,
            tag,
            bytes,
            state: LaneState::Idle,
            queue: VecDeque::new(),
            gathering: Gathering::default(),
            // Places that name messages of a closed lane must not name messages of this one.
            base: self.next_base,
            live: 0,
            partial: None,
            urgent: BTreeMap::new(),
            served: Time::ZERO,
            turn: 0,
        };
        while let Some(Reverse(slot)) = self.free.pop() {
            if let Some(place) = self.lanes.get_mut(slot.index()).filter(|old| old.state == LaneState::Closed)
            {
                *place = lane;
                return slot;
            }
        }
        if self.lanes.len() == self.lanes.capacity() && self.lanes.len() < FEW {
            self.lanes.reserve_exact(1);
        }
        self.lanes.push(lane);
        LaneSlot((self.lanes.len() - 1) as u32)
    }

    /// Closes a lane that is no longer needed. It must be empty.
    pub(in crate::session) fn close(&mut self, slot: LaneSlot) {
        self.deactivate(slot, LaneState::Closed);
        let lane = &mut self.lanes[slot.index()];
        lane.base += lane.queue.len() as u64;
        self.next_base = self.next_base.max(lane.base);
        lane.queue = VecDeque::new();
        lane.gathering.shrink();
        self.free.push(Reverse(slot));
    }

    /// Removes closed lanes from the end of the table. Many streams may have had something to send at once.
    #[inline]
    pub(in crate::session) fn tidy(&mut self) {
        if self.lanes.last().is_some_and(|last| last.state == LaneState::Closed) {
            self.remove_closed();
        }
    }

    fn remove_closed(&mut self) {
        while self.lanes.pop_if(|last| last.state == LaneState::Closed).is_some() {}
        let left = self.lanes.len();
        if left < self.lanes.capacity() / 4 {
            self.lanes.shrink_to(2 * left);
            self.active.shrink_to(left);
            self.free.retain(|Reverse(slot)| slot.index() < left);
            self.free.shrink_to(left);
        }
    }

    #[inline]
    pub(in crate::session) fn lane(&self, slot: LaneSlot) -> &Lane {
        &self.lanes[slot.index()]
    }

    #[inline]
    pub(in crate::session) fn lane_mut(&mut self, slot: LaneSlot) -> &mut Lane {
        &mut self.lanes[slot.index()]
    }

    pub(in crate::session) fn get(&self, slot: LaneSlot) -> Option<&Lane> {
        self.lanes.get(slot.index())
    }

    pub(in crate::session) fn messages(&self) -> usize {
        self.messages
    }

    pub(in crate::session) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(in crate::session) fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    pub(in crate::session) fn has_blocked(&self) -> bool {
        self.blocked > 0
    }

    /// Returns the sequence number of the next message pushed to the lane.
    #[inline]
    pub(in crate::session) fn next_seq(&mut self, slot: LaneSlot) -> u64 {
        let lane = &mut self.lanes[slot.index()];
        lane.settle();
        lane.seqs().end
    }

    /// Appends a message.
    #[inline]
    pub(in crate::session) fn push(&mut self, now: Time, slot: LaneSlot, item: SendItem) {
        self.messages += 1;
        self.bytes += u64::from(item.length);
        let lane = &mut self.lanes[slot.index()];
        lane.settle();
        lane.live += 1;
        lane.count_priority(item.priority, 1, true);
        lane.queue.push_back(item);
        if lane.state == LaneState::Idle {
            self.activate(now, slot);
        }
    }

    /// Appends a copy of a small message that has no properties but these.
    #[inline]
    pub(in crate::session) fn gather(
        &mut self,
        now: Time,
        slot: LaneSlot,
        flags: u8,
        priority: u8,
        payload: &[u8],
    ) {
        self.messages += 1;
        self.bytes += payload.len() as u64;
        let lane = &mut self.lanes[slot.index()];
        lane.live += 1;
        lane.count_priority(priority, 1, true);
        if !lane.gathering.takes(flags, priority, payload) {
            lane.settle();
        }
        lane.gathering.add(flags, priority, payload);
        if lane.state == LaneState::Idle {
            self.activate(now, slot);
        }
    }

    /// Activates a lane that has something to send. Its waiting time starts now if it was idle.
    pub(in crate::session) fn activate(&mut self, now: Time, slot: LaneSlot) {
        let lane = &mut self.lanes[slot.index()];
        if lane.state == LaneState::Active {
            return;
        }
        if lane.state == LaneState::Idle {
            lane.served = lane.served.max(now);
        }
        self.blocked -= usize::from(lane.state == LaneState::Blocked);
        self.capped -= usize::from(lane.state.is_capped());
        lane.state = LaneState::Active;
        self.active.push(slot);
    }

    pub(in crate::session) fn deactivate(&mut self, slot: LaneSlot, state: LaneState) {
        let lane = &mut self.lanes[slot.index()];
        if lane.state == LaneState::Active {
            self.active.retain(|active| *active != slot);
        }
        self.blocked -= usize::from(lane.state == LaneState::Blocked);
        self.blocked += usize::from(state == LaneState::Blocked);
        self.capped -= usize::from(lane.state.is_capped());
        self.capped += usize::from(state.is_capped());
        lane.state = state;
    }

    /// Activates a lane if it is blocked.
    pub(in crate::session) fn unblock(&mut self, now: Time, slot: LaneSlot) {
        if self.lanes[slot.index()].state == LaneState::Blocked {
            self.activate(now, slot);
        }
    }

    /// Returns the lane to serve next: the one unserved the longest, where each level of priority counts as some
    /// waiting time.
    #[inline]
    pub(in crate::session) fn pick(&self) -> Option<LaneSlot> {
        match self.active.as_slice() {
            [] => None,
            [only] => Some(*only),
            many => many.iter().copied().min_by_key(|slot| {
                let lane = &self.lanes[slot.index()];
                (
                    i128::from(lane.served.as_nanos())
                        - i128::from(lane.priority()) * i128::from(self.ageing),
                    lane.turn,
                )
            }),
        }
    }

    /// Records that the lane was served.
    #[inline]
    pub(in crate::session) fn served(&mut self, now: Time, slot: LaneSlot) {
        self.turn += 1;
        let lane = &mut self.lanes[slot.index()];
        lane.served = now;
        lane.turn = self.turn;
    }

    /// Removes and returns the front item.
    #[inline]
    pub(in crate::session) fn pop(&mut self, slot: LaneSlot) -> Option<SendItem> {
        let lane = &mut self.lanes[slot.index()];
        let item = lane.queue.pop_front()?;
        lane.base += 1;
        self.note_taken(slot, &item);
        Some(item)
    }

    /// Removes a share of the front item and returns it.
    #[inline]
    pub(in crate::session) fn take(&mut self, slot: LaneSlot, share: Portion) -> Option<SendItem> {
        let front = self.lanes[slot.index()].queue.front_mut()?;
        if share.count >= front.count {
            return self.pop(slot);
        }
        let item = front.split_off(share);
        self.note_taken(slot, &item);
        Some(item)
    }

    #[inline]
    fn note_taken(&mut self, slot: LaneSlot, item: &SendItem) {
        if item.has(DEAD) {
            return;
        }
        let lane = &mut self.lanes[slot.index()];
        lane.live -= item.count as usize;
        lane.count_priority(item.priority, item.count, false);
        self.messages -= item.count as usize;
        self.bytes -= u64::from(item.length);
    }

    /// Removes a message from the middle and leaves its place empty.
    pub(in crate::session) fn kill(&mut self, slot: LaneSlot, seq: u64) -> Option<SendItem> {
        let lane = self.lanes.get_mut(slot.index())?;
        let index = usize::try_from(seq.checked_sub(lane.base)?).ok()?;
        let item = lane.queue.get_mut(index).filter(|item| !item.has(DEAD))?;
        let dead = item.clone();
        item.payload = bytes::Bytes::new();
        item.flags |= DEAD;
        lane.live -= dead.count as usize;
        lane.count_priority(dead.priority, dead.count, false);
        self.messages -= dead.count as usize;
        self.bytes -= u64::from(dead.length);
        while self.lanes[slot.index()].queue.front().is_some_and(|item| item.has(DEAD)) {
            self.pop(slot);
        }
        if self.lanes[slot.index()].is_empty() {
            self.deactivate(slot, LaneState::Idle);
        }
        Some(dead)
    }

    /// Replaces a waiting message by `item` and returns the old one.
    pub(in crate::session) fn swap(&mut self, slot: LaneSlot, seq: u64, item: SendItem) -> Option<SendItem> {
        let lane = self.lanes.get_mut(slot.index())?;
        let index = usize::try_from(seq.checked_sub(lane.base)?).ok()?;
        let place = lane.queue.get_mut(index).filter(|item| !item.has(DEAD))?;
        let (up, new_len) = (item.priority, item.length);
        let old = std::mem::replace(place, item);
        lane.count_priority(old.priority, 1, false);
        lane.count_priority(up, 1, true);
        self.bytes = self.bytes - u64::from(old.length) + u64::from(new_len);
        Some(old)
    }

    /// Activates lanes whose bandwidth limit ends by `until`.
    pub(in crate::session) fn uncap(&mut self, until: Time, now: Time) {
        if self.capped == 0 {
            return;
        }
        for slot in self.slots() {
            if matches!(self.lanes[slot.index()].state, LaneState::Capped(at) if at <= until) {
                self.activate(now, slot);
            }
        }
    }

    /// Activates all blocked lanes after the peer announced its limits.
    pub(in crate::session) fn unblock_all(&mut self, now: Time) {
        if self.blocked == 0 {
            return;
        }
        for slot in self.slots() {
            self.unblock(now, slot);
        }
    }

    /// Forgets the message that a lane had begun, when it was given up.
    pub(in crate::session) fn forget_partial(&mut self, slot: LaneSlot, key: DomainKey, number: u64) {
        let lane = &mut self.lanes[slot.index()];
        if lane.key == key && lane.partial == Some(number) {
            lane.partial = None;
            if lane.is_empty() {
                self.deactivate(slot, LaneState::Idle);
            }
        }
    }

    pub(in crate::session) fn next_uncap(&self) -> Option<Time> {
        if self.capped == 0 {
            return None;
        }
        let until = |lane: &Lane| if let LaneState::Capped(until) = lane.state { Some(until) } else { None };
        self.lanes.iter().filter_map(until).min()
    }

    pub(in crate::session) fn shrink(&mut self) {
        for lane in &mut self.lanes {
            lane.queue.shrink_to_fit();
            lane.gathering.shrink();
        }
    }

    pub(in crate::session) fn slots(&self) -> impl Iterator<Item = LaneSlot> + use<> {
        (0..self.lanes.len() as u32).map(LaneSlot)
    }
}
