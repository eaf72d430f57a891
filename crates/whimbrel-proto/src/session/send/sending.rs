//! Messages of one order domain that were sent at least once.

#[path = "../snapshot/sending.rs"]
mod snapshot;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::accounting::Accounting;
use super::fragments::FragmentList;
use super::send_item::{CONFIRM, PARTED, Portion, RELIABLE, SendItem, SendState, TRACKED};
use crate::expected::Expected;
use crate::session::config::{MAX_SPAN, MESSAGE_CHARGE};
use crate::session::message::{DomainKey, Outcome};
use crate::session::receive::late::Answer;
use crate::session::receive::ranges::RangeSet;

/// Most fragment lists kept for reuse. This is as many as there are large messages in flight on most paths.
const SPARE: usize = 256;

/// The messages of a domain that were sent. The front item holds the oldest unresolved message.
#[derive(Debug)]
pub(in crate::session) struct SendDomain {
    /// The U and R bits of DATA that name the domain.
    pub(in crate::session) bits: u8,
    /// Whether both sequenced services share the domain.
    pub(in crate::session) cross: bool,
    next: u64,
    /// Items in order of their numbers, which have no gaps.
    items: VecDeque<SendItem>,
    /// Lengths of messages from bundles that were given up, by number, until the peer answers.
    given_up: BTreeMap<u64, u32>,
    /// Fragment lists of messages that travel in parts, by number.
    parts: VecDeque<(u64, FragmentList)>,
    spare: Vec<FragmentList>,
    /// Messages given up whose SKIP is not answered.
    pub(in crate::session) skipping: RangeSet,
    /// Tracked messages for which TAKEN may come.
    pub(in crate::session) confirming: RangeSet,
    /// One more than the number of the latest reliable message begun.
    latest_reliable: u64,
}

impl SendDomain {
    pub(in crate::session) fn new(bits: u8, cross: bool) -> Self {
        Self {
            bits,
            cross,
            next: 0,
            items: VecDeque::new(),
            given_up: BTreeMap::new(),
            parts: VecDeque::new(),
            spare: Vec::new(),
            skipping: RangeSet::default(),
            confirming: RangeSet::default(),
            latest_reliable: 0,
        }
    }

    #[inline]
    pub(in crate::session) fn next(&self) -> u64 {
        self.next
    }

    #[inline]
    fn base(&self) -> u64 {
        self.items.front().map_or(self.next, |item| item.first)
    }

    /// Returns whether the span of numbers is not used up.
    #[inline]
    pub(in crate::session) fn is_open(&self) -> bool {
        self.room() > 0
    }

    /// Returns how many more numbers can be used for now.
    #[inline]
    pub(in crate::session) fn room(&self) -> u32 {
        MAX_SPAN.saturating_sub(self.next - self.base()) as u32
    }

    /// Returns the index of the item that a number belongs to.
    #[inline]
    pub(in crate::session) fn index(&self, number: u64) -> Option<usize> {
        let base = self.base();
        if !(base..self.next).contains(&number) {
            return None;
        }
        if self.next - base == self.items.len() as u64 {
            // There are no bundles.
            return Some((number - base) as usize);
        }
        self.items.partition_point(|item| item.first <= number).checked_sub(1)
    }

    #[inline]
    pub(in crate::session) fn at(&self, index: usize) -> Option<&SendItem> {
        self.items.get(index)
    }

    #[inline]
    pub(in crate::session) fn at_mut(&mut self, index: usize) -> Option<&mut SendItem> {
        self.items.get_mut(index)
    }

    /// Returns the items that contain any of these numbers.
    pub(in crate::session) fn items_of(&self, numbers: Range<u64>) -> impl Iterator<Item = &SendItem> {
        let from = self.index(numbers.start.max(self.base())).unwrap_or(self.items.len());
        self.items.range(from..).take_while(move |item| item.first < numbers.end)
    }

    /// Returns one more than the latest reliable number before `number`, or 0 if there is none that matters.
    pub(in crate::session) fn latest_reliable(&self, number: u64) -> u64 {
        match self.get(number) {
            Some(item) if item.reliable_gap > 0 => number - u64::from(item.reliable_gap) + 1,
            Some(_) => 0,
            None => self.latest_reliable,
        }
    }

    /// Assigns the next number to an item that is sent for the first time, and returns it.
    #[inline]
    pub(in crate::session) fn begin(&mut self, mut item: SendItem) -> u64 {
        let number = self.next;
        item.first = number;
        self.next = item.end();
        if self.cross {
            let gap = if self.latest_reliable == 0 { 0 } else { number + 1 - self.latest_reliable };
            item.reliable_gap = u32::try_from(gap).unwrap_or(0);
            if item.has(RELIABLE) {
                self.latest_reliable = self.next;
            }
        }
        item.state = SendState::Flying;
        if item.has(CONFIRM) && item.has(TRACKED) {
            self.confirming.insert(number, number + 1);
        }
        self.items.push_back(item);
        number
    }

    /// Returns the item that a number belongs to.
    #[inline]
    pub(in crate::session) fn get(&self, number: u64) -> Option<&SendItem> {
        self.items.get(self.index(number)?)
    }

    #[inline]
    pub(in crate::session) fn get_mut(&mut self, number: u64) -> Option<&mut SendItem> {
        let index = self.index(number)?;
        self.items.get_mut(index)
    }

    #[inline]
    fn parts_index(&self, number: u64) -> Option<usize> {
        // It is nearly always the one being sent, or the one being acknowledged.
        let last = self.parts.len().checked_sub(1)?;
        if let Some(end) = [last, 0].into_iter().find(|at| self.parts[*at].0 == number) {
            return Some(end);
        }
        self.parts.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    pub(in crate::session) fn parts_mut(&mut self, number: u64) -> Option<&mut FragmentList> {
        let index = self.parts_index(number)?;
        Some(&mut self.parts[index].1)
    }

    pub(in crate::session) fn has_parts(&self, number: u64) -> bool {
        self.parts_index(number).is_some()
    }

    /// Makes the message travel in parts from now on.
    pub(in crate::session) fn split(&mut self, number: u64) -> &mut FragmentList {
        if let Some(item) = self.get_mut(number) {
            item.flags |= PARTED;
        }
        let index = self.parts.partition_point(|(at, _)| *at < number);
        let list = self.spare.pop().unwrap_or_default();
        self.parts.insert(index, (number, list));
        &mut self.parts[index].1
    }

    fn join(&mut self, number: u64) {
        if let Some(index) = self.parts_index(number)
            && let Some((_, mut list)) = self.parts.remove(index)
            && self.spare.len() < SPARE
        {
            list.clear();
            self.spare.push(list);
        }
    }

    /// Handles the acknowledgement of `first..first + count`, which arrived whole. Messages that were given up still
    /// wait for the answer to SKIP, because the copy may have arrived after it.
    pub(in crate::session) fn on_run_acked(
        &mut self,
        key: DomainKey,
        first: u64,
        count: u64,
        accounting: &mut Accounting,
    ) {
        let end = (first + count).min(self.next);
        if self.parts.is_empty() {
            let acked = |item: &&SendItem| item.first >= first && item.end() <= end && item.is_live();
            while self.items.front().filter(acked).is_some()
                && let Some(item) = self.items.pop_front()
            {
                accounting.on_settled(&item, key, item.first, Outcome::Delivered);
            }
        }
        let from = if self.base() < end { self.index(first.max(self.base())) } else { None };
        for index in from.unwrap_or(self.items.len())..self.items.len() {
            if self.items[index].first >= end {
                break;
            }
            if self.items[index].is_live() {
                self.settle_at(key, index, Outcome::Delivered, accounting);
            }
        }
        self.pop_done();
    }

    /// Resolves one message that is not in a bundle, unless it is resolved already.
    pub(in crate::session) fn settle(
        &mut self,
        key: DomainKey,
        number: u64,
        outcome: Outcome,
        accounting: &mut Accounting,
    ) {
        if let Some(index) = self.index(number) {
            self.settle_at(key, index, outcome, accounting);
        }
    }

    fn settle_at(&mut self, key: DomainKey, index: usize, outcome: Outcome, accounting: &mut Accounting) {
        let item = &mut self.items[index];
        if item.state == SendState::Done {
            return;
        }
        let before = std::mem::replace(&mut item.state, SendState::Done);
        item.payload = bytes::Bytes::new();
        let number = item.first;
        if matches!(before, SendState::Skipping(_)) {
            self.skipping.remove(number, number + 1);
        }
        if item.has(CONFIRM) && outcome != Outcome::Delivered {
            self.confirming.remove(number, number + 1);
        }
        accounting.on_settled(&self.items[index], key, number, outcome);
        if !self.parts.is_empty() {
            self.join(number);
        }
    }

    /// Returns those of these numbers that were given up and not answered by the peer.
    pub(in crate::session) fn asked(&self, numbers: Range<u64>) -> Vec<u64> {
        let single = self.skipping.within(numbers.start, numbers.end).flat_map(|(from, to)| from..to);
        single.chain(self.given_up.range(numbers).map(|(number, _)| *number)).collect()
    }

    /// Handles the peer's verdict that messages arrived too late. Live ones are lost, and those given up keep the
    /// outcome they were given up with. For a message in parts, the answer to its SKIP decides instead.
    pub(in crate::session) fn on_late(
        &mut self,
        key: DomainKey,
        numbers: &Range<u64>,
        accounting: &mut Accounting,
    ) {
        let mut from = numbers.start.max(self.base());
        while from < numbers.end
            && let Some(item) = self.get(from)
        {
            let end = item.end().min(numbers.end);
            let unsure = !item.has(RELIABLE) && !item.has(PARTED);
            if unsure && item.is_live() {
                self.single_out(from..end);
                self.settle(key, from, Outcome::Lost, accounting);
            } else if unsure {
                (from..end).for_each(|number| self.on_answer(key, number, Answer::Skipped, accounting));
            }
            from = end;
        }
    }

    /// Resolves a message that was given up, by the peer's answer.
    pub(in crate::session) fn on_answer(
        &mut self,
        key: DomainKey,
        number: u64,
        answer: Answer,
        accounting: &mut Accounting,
    ) {
        let Some(index) = self.index(number) else { return };
        let item = &mut self.items[index];
        let outcome = match (item.state, answer) {
            (SendState::Skipping(_), Answer::Delivered) => Outcome::Delivered,
            (SendState::Skipping(why), _) => why,
            _ => return,
        };
        if !item.is_bundle() {
            self.settle_at(key, index, outcome, accounting);
        } else if let Some(length) = self.given_up.remove(&number) {
            accounting.on_one_settled(length, outcome);
            if self.given_up.range(item.first..item.end()).next().is_none() {
                item.state = SendState::Done;
            }
        }
    }

    /// Resolves all messages.
    pub(in crate::session) fn settle_all(
        &mut self,
        key: DomainKey,
        outcome: Outcome,
        accounting: &mut Accounting,
    ) {
        for index in 0..self.items.len() {
            let item = &mut self.items[index];
            if item.is_bundle() && matches!(item.state, SendState::Skipping(_)) {
                item.state = SendState::Done;
            }
            self.settle_at(key, index, outcome, accounting);
        }
        for (_, length) in std::mem::take(&mut self.given_up) {
            accounting.on_one_settled(length, outcome);
        }
        self.pop_done();
    }

    #[inline]
    pub(in crate::session) fn pop_done(&mut self) {
        while self.items.front().is_some_and(|item| item.state == SendState::Done) {
            self.items.pop_front();
        }
    }

    /// Handles the acknowledgement of a part of a message. Returns whether the message is whole now.
    pub(in crate::session) fn on_part_acked(&mut self, number: u64, offset: u64, len: u32) -> bool {
        let Some(length) = self.get(number).map(|item| u64::from(item.length)) else { return false };
        let Some(list) = self.parts_mut(number) else { return false };
        list.on_acked(offset, len);
        list.acked() == length
    }

    /// Gives a message up, so that nothing of it is sent again. Returns whether it was still live. The caller tells the
    /// receiver.
    pub(in crate::session) fn give_up(&mut self, number: u64, why: Outcome) -> bool {
        let Some(item) = self.get_mut(number).filter(|item| item.is_live()) else { return false };
        item.state = SendState::Skipping(why);
        item.payload = bytes::Bytes::new();
        self.skipping.insert(number, number + 1);
        self.join(number);
        true
    }

    /// Gives up a whole bundle, like [`SendDomain::give_up`].
    pub(in crate::session) fn give_up_bundle(&mut self, index: usize, why: Outcome) {
        let Some(item) = self.items.get_mut(index).filter(|item| item.is_live()) else { return };
        item.state = SendState::Skipping(why);
        self.given_up.extend((item.first..).zip(item.lengths()));
        item.payload = bytes::Bytes::new();
    }

    /// Returns the charge of a message that was given up and not answered by the peer.
    pub(in crate::session) fn charge_given_up(&self, number: u64) -> Option<u64> {
        let item = self.get(number).filter(|item| matches!(item.state, SendState::Skipping(_)))?;
        if !item.is_bundle() {
            return Some(item.charge());
        }
        self.given_up.get(&number).map(|length| u64::from(*length) + MESSAGE_CHARGE)
    }

    /// Splits an item so that these messages form an item of their own.
    fn single_out(&mut self, numbers: Range<u64>) {
        let Some(mut index) = self.index(numbers.start).expected("a live message") else { return };
        let item = &self.items[index];
        let before = (numbers.start - item.first) as u32;
        if before > 0 {
            let share = item.share(usize::MAX, before, |_| true);
            self.cut(index, share);
            index += 1;
        }
        let share = self.items[index].share(usize::MAX, (numbers.end - numbers.start) as u32, |_| true);
        self.cut(index, share);
    }

    /// Splits the item at `index` so that the share forms an item of its own.
    pub(in crate::session) fn cut(&mut self, index: usize, share: Portion) {
        if self.items[index].count > share.count {
            let front = self.items[index].split_off(share);
            self.items.insert(index, front);
        }
    }

    /// Frees memory that is kept for speed.
    pub(in crate::session) fn trim(&mut self) {
        self.spare = Vec::new();
    }

    /// Returns whether every message sent has its outcome and no confirmation is awaited.
    pub(in crate::session) fn is_settled(&self) -> bool {
        self.items.is_empty() && self.confirming.is_empty()
    }

    /// Returns the numbers from the oldest unresolved one to the next one.
    pub(in crate::session) fn numbers(&self) -> Range<u64> {
        self.base()..self.next
    }
}
