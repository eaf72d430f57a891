//! A program that writes and reads as a seed decides.

use rand::RngExt;
use rand_chacha::ChaCha20Rng;

use crate::pipes::End;

/// A program that writes and reads as a seed decides.
pub(crate) struct Talker {
    pub(crate) end: End,
    pub(crate) wants: Vec<u8>,
    pub(crate) written: usize,
    pub(crate) read: Vec<u8>,
    pub(crate) has_finished: bool,
    pub(crate) read_end: bool,
    pub(crate) was_reset: bool,
}

impl Talker {
    pub(crate) fn new(end: End, rng: &mut ChaCha20Rng) -> Self {
        let length = rng.random_range(0..20_000);
        let wants = (0..length).map(|_| rng.random()).collect();
        let read = Vec::new();
        Self { end, wants, written: 0, read, has_finished: false, read_end: false, was_reset: false }
    }

    /// Makes what it writes text that repeats itself.
    pub(crate) fn write_records(&mut self) {
        let record = |at: usize| format!("<event uid=\"{at}\"><point lat=\"{}\"/></event>\n", at % 90);
        let text: Vec<u8> =
            (0..self.wants.len()).flat_map(|at| record(at).into_bytes()).take(self.wants.len()).collect();
        self.wants = text;
    }

    pub(crate) fn act(&mut self, rng: &mut ChaCha20Rng) {
        if self.was_reset {
            return;
        }
        if rng.random_ratio(2, 3) && !self.has_finished {
            let most = (self.written + rng.random_range(1..3_000)).min(self.wants.len());
            match self.end.writes.borrow_mut().write(&self.wants[self.written..most]) {
                Ok(taken) => self.written += taken,
                Err(_) => return self.was_reset = true,
            }
            if self.written == self.wants.len() {
                self.end.end();
                self.has_finished = true;
            }
        }
        if rng.random_ratio(1, 2) && !self.read_end {
            match self.end.reads.borrow_mut().read(rng.random_range(1..2_000)) {
                Ok(Some(bytes)) => self.read.extend(bytes),
                Ok(None) => self.read_end = true,
                Err(_) => self.was_reset = true,
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.was_reset || self.has_finished && self.read_end
    }
}
