//! Messages of one order domain that were sent at least once.

use std::collections::VecDeque;

use super::config::MAX_SPAN;
use super::fragments::FragmentList;
use super::item::{Item, PARTED, RELIABLE, State};
use super::ledger::Ledger;
use super::message::{DomainKey, Outcome};

/// Numbers `base` on; the front one is the oldest unresolved.
#[derive(Debug)]
pub(super) struct SendDomain {
    /// DATA's U and R bits naming the domain.
    pub(super) bits: u8,
    /// Both sequenced services share it.
    pub(super) cross: bool,
    base: u64,
    items: VecDeque<Item>,
    /// Parts of those that travel in parts, by number.
    parts: VecDeque<(u64, FragmentList)>,
    spare: Vec<FragmentList>,
    /// One more than the latest reliable number begun.
    latest_reliable: u64,
}

impl SendDomain {
    pub(super) fn new(bits: u8, cross: bool) -> Self {
        Self {
            bits,
            cross,
            base: 0,
            items: VecDeque::new(),
            parts: VecDeque::new(),
            spare: Vec::new(),
            latest_reliable: 0,
        }
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.base + self.items.len() as u64
    }

    /// The span of numbers is not used up.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        (self.items.len() as u64) < MAX_SPAN
    }

    /// How many more numbers there are for now.
    #[inline]
    pub(super) fn room(&self) -> usize {
        (MAX_SPAN as usize).saturating_sub(self.items.len())
    }

    /// One more than the latest reliable number before `number`, or 0 if it was long resolved.
    pub(super) fn latest_reliable(&self, number: u64) -> u64 {
        match self.get(number) {
            Some(item) if item.reliable_gap > 0 => number - u64::from(item.reliable_gap) + 1,
            Some(_) => 0,
            None => self.latest_reliable,
        }
    }

    /// Gives the message its number.
    #[inline]
    pub(super) fn begin(&mut self, mut item: Item) -> u64 {
        let number = self.next();
        if self.cross {
            let gap = if self.latest_reliable == 0 { 0 } else { number + 1 - self.latest_reliable };
            item.reliable_gap = u32::try_from(gap).unwrap_or(0);
            if item.has(RELIABLE) {
                self.latest_reliable = number + 1;
            }
        }
        item.state = State::Flying;
        self.items.push_back(item);
        number
    }

    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&Item> {
        self.items.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Item> {
        self.items.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn parts_index(&self, number: u64) -> Option<usize> {
        self.parts.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    pub(super) fn parts_mut(&mut self, number: u64) -> Option<&mut FragmentList> {
        let index = self.parts_index(number)?;
        Some(&mut self.parts[index].1)
    }

    pub(super) fn has_parts(&self, number: u64) -> bool {
        self.parts_index(number).is_some()
    }

    /// From now on the message travels in parts.
    pub(super) fn split(&mut self, number: u64) -> &mut FragmentList {
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
            && self.spare.len() < 4
        {
            list.clear();
            self.spare.push(list);
        }
    }

    /// `first..first + count` arrived whole. What was given up waits for the answer to SKIP all the same: the copy may
    /// have come after the notice.
    pub(super) fn on_run_acked(&mut self, key: DomainKey, first: u64, count: u64, ledger: &mut Ledger) {
        let end = (first + count).min(self.next());
        let mut number = first.max(self.base);
        if self.parts.is_empty() {
            while number == self.base && number < end && self.items.front().is_some_and(Item::is_live) {
                if let Some(item) = self.items.pop_front() {
                    ledger.on_settled(&item, key, number, Outcome::Delivered);
                }
                self.base += 1;
                number += 1;
            }
        }
        for number in number..end {
            if self.get(number).is_some_and(Item::is_live) {
                self.settle(key, number, Outcome::Delivered, ledger);
            }
        }
        self.pop_done();
    }

    /// Resolves one message, unless it is resolved.
    pub(super) fn settle(&mut self, key: DomainKey, number: u64, outcome: Outcome, ledger: &mut Ledger) {
        let Some(item) = self.get_mut(number).filter(|item| item.state != State::Done) else { return };
        item.state = State::Done;
        item.payload = bytes::Bytes::new();
        let item = &self.items[(number - self.base) as usize];
        ledger.on_settled(item, key, number, outcome);
        if !self.parts.is_empty() {
            self.join(number);
        }
    }

    #[inline]
    pub(super) fn pop_done(&mut self) {
        while self.items.front().is_some_and(|item| item.state == State::Done) {
            self.items.pop_front();
            self.base += 1;
        }
    }

    /// Part of a message arrived; says whether it is whole now.
    pub(super) fn on_part_acked(&mut self, number: u64, offset: u64, len: u32) -> bool {
        let Some(length) = self.get(number).map(|item| u64::from(item.length)) else { return false };
        let Some(list) = self.parts_mut(number) else { return false };
        list.on_acked(offset, len);
        list.acked() == length
    }

    /// Gives a message up: nothing of it is sent again, the receiver is told. Says whether it was still live.
    pub(super) fn give_up(&mut self, number: u64, why: Outcome) -> bool {
        let Some(item) = self.get_mut(number).filter(|item| item.is_live()) else { return false };
        item.state = State::Skipping(why);
        item.payload = bytes::Bytes::new();
        self.join(number);
        true
    }

    /// Numbers not resolved, oldest first.
    pub(super) fn numbers(&self) -> std::ops::Range<u64> {
        self.base..self.next()
    }
}
