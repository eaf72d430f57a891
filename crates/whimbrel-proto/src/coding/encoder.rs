//! The sender's window of source symbols, from which repair symbols are made.

use std::collections::VecDeque;
use std::time::Duration;

use super::repair::{LONGEST_WINDOW, Repair, combined, framed};
use crate::Time;

/// The most bytes of symbols in the window.
const MOST_BYTES: usize = 384 << 10;

/// The window.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// The symbols in framed form, each with the time until which it is of use, in the order of their numbers.
    window: VecDeque<(Time, Vec<u8>)>,
    /// Their bytes.
    bytes: usize,
    /// The number of the first symbol in the window.
    first: u64,
    /// The key of the next repair symbol.
    key: u16,
}

impl Encoder {
    /// Creates one whose next source symbol has this number, and whose next repair symbol the key after this.
    #[cfg(test)]
    pub(crate) fn starting_at(first: u64, key: u16) -> Self {
        Self { first, key, ..Self::default() }
    }

    /// Takes a source symbol that is of use for this long. Returns its number.
    pub(crate) fn push(&mut self, now: Time, useful: Duration, symbol: &[u8]) -> u64 {
        self.forget(now);
        let symbol = framed(symbol);
        self.bytes += symbol.len();
        while self.window.len() as u64 == LONGEST_WINDOW || self.bytes > MOST_BYTES && !self.window.is_empty()
        {
            self.forget_first();
        }
        self.window.push_back((now + useful, symbol));
        self.next() - 1
    }

    /// The number of the next source symbol.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.window.len() as u64
    }

    /// The number of source symbols in the window.
    pub(crate) fn len(&self) -> usize {
        self.window.len()
    }

    /// Makes a repair symbol of everything in the window. Returns `None` if there is nothing in it.
    pub(crate) fn repair(&mut self, now: Time) -> Option<Repair> {
        self.forget(now);
        if self.window.is_empty() {
            return None;
        }
        self.key = self.key.wrapping_add(1);
        Some(combined(self.first, self.key, self.window.iter().map(|(_, symbol)| &symbol[..])))
    }

    /// Forgets symbols that are of no use any more.
    fn forget(&mut self, now: Time) {
        while self.window.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, symbol)) = self.window.pop_front() {
            self.bytes -= symbol.len();
            self.first += 1;
        }
    }

    /// Frees the memory. Numbers go on.
    pub(crate) fn trim(&mut self) {
        (self.first, self.bytes, self.window) = (self.next(), 0, VecDeque::new());
    }
}
