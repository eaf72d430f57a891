//! The sender's record of a message or byte stream that travels in parts.

#[path = "../snapshot/fragments.rs"]
mod snapshot;

use crate::expected::Expected;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FragmentState {
    Flying,
    Lost,
    Acked,
}

#[derive(Clone, Copy, Debug)]
struct Fragment {
    offset: u64,
    len: u32,
    state: FragmentState,
}

/// Fragments in order of offset. A fragment may be split but is never merged again, so every copy ever sent covers
/// whole entries.
#[derive(Debug, Default)]
pub(in crate::session) struct FragmentList {
    fragments: VecDeque<Fragment>,
    /// All bytes below this offset were sent at least once.
    sent: u64,
    /// Offsets of fragments to retransmit. Fragments acknowledged meanwhile are passed over.
    lost: VecDeque<u64>,
}

impl FragmentList {
    /// Creates the record of something of which all bytes below `offset` were acknowledged.
    pub(in crate::session) fn at(offset: u64) -> Self {
        Self { sent: offset, ..Self::default() }
    }

    /// Returns the offset below which everything was sent at least once.
    pub(in crate::session) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the offset below which everything was acknowledged.
    pub(in crate::session) fn acked(&self) -> u64 {
        self.fragments.front().map_or(self.sent, |fragment| fragment.offset)
    }

    /// Records that the next `len` bytes are sent for the first time.
    pub(in crate::session) fn on_sent(&mut self, len: u32) {
        self.fragments.push_back(Fragment { offset: self.sent, len, state: FragmentState::Flying });
        self.sent += u64::from(len);
    }

    /// Adds the next `len` bytes as lost. They were sent before, but not as a part.
    pub(in crate::session) fn begin_lost(&mut self, len: u32) {
        self.lost.push_back(self.sent);
        self.fragments.push_back(Fragment { offset: self.sent, len, state: FragmentState::Lost });
        self.sent += u64::from(len);
    }

    fn index(&self, offset: u64) -> usize {
        match self.fragments.front() {
            Some(front) if front.offset >= offset => 0,
            _ => self.fragments.partition_point(|fragment| fragment.offset < offset),
        }
    }

    pub(in crate::session) fn on_acked(&mut self, offset: u64, len: u32) {
        let end = offset + u64::from(len);
        let mut index = self.index(offset);
        while let Some(fragment) = self.fragments.get_mut(index).filter(|fragment| fragment.offset < end) {
            fragment.state = FragmentState::Acked;
            index += 1;
        }
        while self.fragments.front().is_some_and(|fragment| fragment.state == FragmentState::Acked) {
            self.fragments.pop_front();
        }
        if self.fragments.is_empty() {
            self.lost.clear();
        }
    }

    pub(in crate::session) fn on_lost(&mut self, offset: u64, len: u32) {
        let end = offset + u64::from(len);
        let mut index = self.index(offset);
        while let Some(fragment) = self.fragments.get_mut(index).filter(|fragment| fragment.offset < end) {
            if fragment.state == FragmentState::Flying {
                fragment.state = FragmentState::Lost;
                self.lost.push_back(fragment.offset);
            }
            index += 1;
        }
    }

    /// Returns the next lost fragment.
    pub(in crate::session) fn peek_lost(&mut self) -> Option<(u64, u32)> {
        while let Some(offset) = self.lost.front().copied() {
            let index = self.index(offset);
            match self.fragments.get(index) {
                Some(fragment) if fragment.offset == offset && fragment.state == FragmentState::Lost => {
                    return Some((offset, fragment.len));
                }
                _ => self.lost.pop_front(),
            };
        }
        None
    }

    /// Records that the first `len` bytes of the fragment from [`Self::peek_lost`] are sent again.
    pub(in crate::session) fn resend(&mut self, len: u32) {
        let Some(offset) = self.lost.pop_front().expected("a lost fragment") else { return };
        let index = self.index(offset);
        let Some(fragment) = self.fragments.get_mut(index).expected("a lost fragment") else { return };
        let rest = fragment.len.saturating_sub(len);
        fragment.state = FragmentState::Flying;
        if rest > 0 {
            fragment.len = len;
            let offset = offset + u64::from(len);
            self.fragments.insert(index + 1, Fragment { offset, len: rest, state: FragmentState::Lost });
            self.lost.push_front(offset);
        }
    }

    /// Removes all fragments and keeps the memory.
    pub(in crate::session) fn clear(&mut self) {
        self.fragments.clear();
        self.lost.clear();
        self.sent = 0;
    }
}
