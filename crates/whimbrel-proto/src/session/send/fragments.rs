//! The sender's view of one message, or byte stream, that travels in parts.

#[path = "../snapshot/fragments.rs"]
mod snapshot;

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

/// Fragments in order of offset. Cuts are only added, never taken back, so that every copy ever sent covers whole
/// entries.
#[derive(Debug, Default)]
pub(in crate::session) struct FragmentList {
    fragments: VecDeque<Fragment>,
    /// Everything below was sent at least once.
    sent: u64,
    /// Offsets to look at for retransmission; entries acknowledged meanwhile are passed over.
    lost: VecDeque<u64>,
}

impl FragmentList {
    /// Everything below was sent at least once.
    pub(in crate::session) fn sent(&self) -> u64 {
        self.sent
    }

    /// Everything below was acknowledged.
    pub(in crate::session) fn acked(&self) -> u64 {
        self.fragments.front().map_or(self.sent, |fragment| fragment.offset)
    }

    /// The next `len` bytes go out for the first time.
    pub(in crate::session) fn on_sent(&mut self, len: u32) {
        self.fragments.push_back(Fragment { offset: self.sent, len, state: FragmentState::Flying });
        self.sent += u64::from(len);
    }

    /// `len` bytes are to be sent that were thought sent.
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

    /// The next lost part.
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

    /// The first `len` bytes of what [`Self::peek_lost`] gave go out again.
    pub(in crate::session) fn resend(&mut self, len: u32) {
        let Some(offset) = self.lost.pop_front() else { return };
        let index = self.index(offset);
        let Some(fragment) = self.fragments.get_mut(index) else { return };
        let rest = fragment.len.saturating_sub(len);
        fragment.state = FragmentState::Flying;
        if rest > 0 {
            fragment.len = len;
            let offset = offset + u64::from(len);
            self.fragments.insert(index + 1, Fragment { offset, len: rest, state: FragmentState::Lost });
            self.lost.push_front(offset);
        }
    }

    /// Forgets everything, keeping the memory.
    pub(in crate::session) fn clear(&mut self) {
        self.fragments.clear();
        self.lost.clear();
        self.sent = 0;
    }
}
