//! The peer's challenges that wait to be answered.
use crate::wire::{Writer, block};

/// The most challenges answered together. Of more at once, only the last are answered.
pub(in crate::connection) const ANSWERS: usize = 4;

/// The challenges, the oldest first.
#[derive(Debug, Default)]
pub(in crate::connection) struct ChallengeAnswers(Vec<u64>);

impl ChallengeAnswers {
    pub(in crate::connection) fn push(&mut self, challenge: u64) {
        if self.0.len() == ANSWERS {
            self.0.remove(0);
        }
        self.0.push(challenge);
    }

    /// Returns the latest challenge.
    pub(in crate::connection) fn newest(&self) -> Option<u64> {
        self.0.last().copied()
    }

    /// Returns whether an answer is due. It is sent whatever congestion control says, since the peer may be waiting for
    /// nothing else.
    pub(in crate::connection) fn is_due(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns how many bytes the answers take.
    pub(in crate::connection) fn room(&self) -> usize {
        9 * self.0.len()
    }

    /// Writes the answers that fit. Returns whether there is one.
    pub(in crate::connection) fn fill(&mut self, out: &mut Writer<'_>) -> bool {
        let before = self.0.len();
        while !self.0.is_empty() && out.remaining() >= 9 {
            out.u8(block::PROBE_ACK);
            out.u64(self.0.remove(0));
        }
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_do_not_pile_up() {
        let mut answers = ChallengeAnswers::default();
        for challenge in 0..100 {
            answers.push(challenge);
        }
        let mut buf = Vec::new();
        assert!(answers.fill(&mut Writer::new(&mut buf, 1200)));
        assert_eq!(buf.len(), 9 * ANSWERS);
        assert!(!answers.is_due());
    }
}
