//! A queue that frees its memory while it drains.

use std::collections::VecDeque;

/// A first-in-first-out queue. A `VecDeque` keeps the memory of its greatest length, and has twice what it needs when
/// it grows. This queue keeps only its first piece.
#[derive(Clone, Debug)]
pub(in crate::session) struct Queue<T> {
    first: VecDeque<T>,
    rest: Option<Box<Rest<T>>>,
}

/// The pieces after the first. All but the last are full.
#[derive(Clone, Debug)]
struct Rest<T> {
    pieces: VecDeque<VecDeque<T>>,
    len: usize,
}

/// Entries in a piece.
const PIECE: usize = 64;

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { first: VecDeque::new(), rest: None }
    }
}

impl<T> Queue<T> {
    #[inline]
    pub(in crate::session) fn len(&self) -> usize {
        self.first.len() + self.rest.as_ref().map_or(0, |rest| rest.len)
    }

    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_none()
    }

    #[inline]
    pub(in crate::session) fn push_back(&mut self, entry: T) {
        if self.rest.is_none() && self.first.len() < PIECE {
            self.first.push_back(entry);
        } else {
            self.push_rest(entry);
        }
    }

    fn push_rest(&mut self, entry: T) {
        let rest = self.rest.get_or_insert_with(|| Box::new(Rest { pieces: VecDeque::new(), len: 0 }));
        rest.len += 1;
        match rest.pieces.back_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.push_back(entry),
            None => {
                let mut piece = VecDeque::with_capacity(PIECE);
                piece.push_back(entry);
                rest.pieces.push_back(piece);
            }
        }
    }

    pub(in crate::session) fn push_front(&mut self, entry: T) {
        self.first.push_front(entry);
    }

    #[inline]
    pub(in crate::session) fn pop_front(&mut self) -> Option<T> {
        if self.first.is_empty() {
            self.refill();
        }
        self.first.pop_front()
    }

    fn refill(&mut self) {
        let Some(rest) = &mut self.rest else { return };
        if let Some(piece) = rest.pieces.pop_front() {
            rest.len -= piece.len();
            self.first = piece;
        }
        if rest.len == 0 {
            self.rest = None;
        }
    }

    pub(in crate::session) fn pop_back(&mut self) -> Option<T> {
        let Some(rest) = &mut self.rest else { return self.first.pop_back() };
        let piece = rest.pieces.back_mut()?;
        let last = piece.pop_back();
        rest.len -= 1;
        if piece.is_empty() {
            rest.pieces.pop_back();
        }
        if rest.len == 0 {
            self.rest = None;
        }
        last
    }

    pub(in crate::session) fn front(&self) -> Option<&T> {
        self.first.front().or_else(|| self.rest.as_ref()?.pieces.front()?.front())
    }

    pub(in crate::session) fn back(&self) -> Option<&T> {
        match &self.rest {
            Some(rest) => rest.pieces.back()?.back(),
            None => self.first.back(),
        }
    }

    pub(in crate::session) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.pieces.iter().flatten()))
    }

    pub(in crate::session) fn shrink(&mut self) {
        self.first.shrink_to_fit();
    }
}

impl<T> Extend<T> for Queue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.push_back(entry));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(ops in proptest::collection::vec((0u8..6, 1usize..90), 0..60)) {
            let (mut queue, mut model, mut next) = (Queue::default(), VecDeque::new(), 0u32);
            for (op, times) in ops {
                for _ in 0..times {
                    next += 1;
                    match op {
                        0..=2 => {
                            queue.push_back(next);
                            model.push_back(next);
                        }
                        3 => prop_assert_eq!(queue.pop_front(), model.pop_front()),
                        4 => prop_assert_eq!(queue.pop_back(), model.pop_back()),
                        _ => {
                            queue.push_front(next);
                            model.push_front(next);
                        }
                    }
                    prop_assert_eq!(queue.len(), model.len());
                    prop_assert_eq!(queue.is_empty(), model.is_empty());
                    prop_assert_eq!((queue.front(), queue.back()), (model.front(), model.back()));
                }
                prop_assert!(queue.iter().eq(model.iter()));
            }
        }
    }

    #[test]
    fn what_was_drained_keeps_one_piece() {
        let mut queue = Queue::default();
        queue.extend(0..100_000u64);
        while queue.pop_front().is_some() {}
        assert!(queue.rest.is_none() && queue.first.capacity() <= PIECE, "{}", queue.first.capacity());
    }
}
