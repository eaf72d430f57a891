//! Where messages wait for their first transmission, and which goes next.

#[path = "../snapshot/lane.rs"]
pub(in crate::session) mod snapshot;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::gather::Gathering;
use super::send_item::{DEAD, SendItem, Share};
use crate::Time;
use crate::session::message::DomainKey;
use crate::session::numbers::{LaneSlot, TagSlot};
use crate::time::nanos;
use crate::wire::data::DEFAULT_PRIORITY;

/// What keeps a lane from being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum LaneState {
    /// Nothing to send.
    Idle,
    /// In the running.
    Active,
    /// Credit or the span of numbers is used up.
    Blocked,
    /// Its tag's cap, until then.
    Capped(Time),
}

impl LaneState {
    fn is_capped(self) -> bool {
        matches!(self, Self::Capped(_))
    }
}

/// A first-in-first-out queue: one a sequenced domain, one a priority (and capped tag) of an unsequenced one, one a
/// byte stream.
#[derive(Debug)]
pub(in crate::session) struct Lane {
    pub(in crate::session) key: DomainKey,
    /// `None`: sequenced, messages of all priorities.
    pub(in crate::session) priority: Option<u8>,
    /// The capped tag whose messages alone it holds.
    pub(in crate::session) tag: TagSlot,
    pub(in crate::session) bytes: bool,
    pub(in crate::session) state: LaneState,
    queue: VecDeque<SendItem>,
    /// What comes behind the queue.
    gathering: Gathering,
    /// Items that left the front, ever: the sequence number of the front one.
    base: u64,
    /// Messages.
    live: usize,
    /// Message that was begun and has parts to send.
    pub(in crate::session) partial: Option<u64>,
    urgent: BTreeMap<u8, u32>,
    served: Time,
    turn: u64,
}

impl Lane {
    /// Highest priority waiting: an urgent message lifts those before it.
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

    /// Puts what was gathered into the queue.
    #[inline]
    pub(in crate::session) fn settle(&mut self) {
        if let Some(bundle) = self.gathering.close() {
            self.queue.push_back(bundle);
        }
    }

    /// The first in the queue.
    #[inline]
    pub(in crate::session) fn front(&self) -> Option<&SendItem> {
        self.queue.front()
    }

    #[inline]
    pub(in crate::session) fn second(&self) -> Option<&SendItem> {
        self.queue.get(1)
    }

    /// Messages that wait.
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

/// All lanes and the sums over them.
#[derive(Debug)]
pub(in crate::session) struct Outbox {
    lanes: Vec<Lane>,
    active: Vec<LaneSlot>,
    turn: u64,
    ageing: u64,
    messages: usize,
    bytes: u64,
    /// Lanes that wait for credit.
    blocked: usize,
    /// Lanes that wait for their tag's cap.
    capped: usize,
    /// Lanes that nobody has.
    free: Vec<LaneSlot>,
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
            free: Vec::new(),
        }
    }

    pub(in crate::session) fn open(
        &mut self,
        key: DomainKey,
        priority: Option<u8>,
        tag: TagSlot,
        bytes: bool,
    ) -> LaneSlot {
        let mut lane = Lane {
            key,
            priority,
            tag,
            bytes,
            state: LaneState::Idle,
            queue: VecDeque::new(),
            gathering: Gathering::default(),
            base: 0,
            live: 0,
            partial: None,
            urgent: BTreeMap::new(),
            served: Time::ZERO,
            turn: 0,
        };
        if let Some(slot) = self.free.pop() {
            // Places of the old lane's messages must not name the new one's.
            lane.base = self.lanes[slot.index()].base;
            self.lanes[slot.index()] = lane;
            return slot;
        }
        self.lanes.push(lane);
        LaneSlot((self.lanes.len() - 1) as u32)
    }

    /// The lane is not needed any more; it must be empty.
    pub(in crate::session) fn close(&mut self, slot: LaneSlot) {
        self.deactivate(slot, LaneState::Idle);
        let lane = &mut self.lanes[slot.index()];
        lane.base += lane.queue.len() as u64;
        lane.queue = VecDeque::new();
        lane.gathering.shrink();
        self.free.push(slot);
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

    /// The place in the lane that the next message pushed will have.
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

    /// Appends a copy of a small message with nothing of its own but these.
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

    /// The lane has something that may be sent: its age begins if it had nothing.
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

    /// Wakes a blocked lane.
    pub(in crate::session) fn unblock(&mut self, now: Time, slot: LaneSlot) {
        if self.lanes[slot.index()].state == LaneState::Blocked {
            self.activate(now, slot);
        }
    }

    /// The lane whose turn it is: longest unserved, where a level of priority counts as so much waiting.
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

    /// The lane had its quantum.
    #[inline]
    pub(in crate::session) fn served(&mut self, now: Time, slot: LaneSlot) {
        self.turn += 1;
        let lane = &mut self.lanes[slot.index()];
        lane.served = now;
        lane.turn = self.turn;
    }

    /// Takes what is in front out.
    #[inline]
    pub(in crate::session) fn pop(&mut self, slot: LaneSlot) -> Option<SendItem> {
        let lane = &mut self.lanes[slot.index()];
        let item = lane.queue.pop_front()?;
        lane.base += 1;
        self.note_taken(slot, &item);
        Some(item)
    }

    /// Takes a share of what is in front out.
    #[inline]
    pub(in crate::session) fn take(&mut self, slot: LaneSlot, share: Share) -> Option<SendItem> {
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

    /// Takes a message out of the middle, leaving its place.
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

    /// Puts `item` in the place of a waiting one, which is returned.
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

    /// Lanes whose cap lets them go on by `until` are in the running again.
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

    /// The peer said what it takes.
    pub(in crate::session) fn unblock_all(&mut self, now: Time) {
        if self.blocked == 0 {
            return;
        }
        for slot in self.slots() {
            self.unblock(now, slot);
        }
    }

    /// The message a lane had begun was given up.
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
