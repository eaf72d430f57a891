//! The messages that one subscriber received.

use super::stamp::Stamp;

/// The account of one subscriber, which wants all messages of one tenth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// A bit for each number.
    seen: Vec<u64>,
    /// The messages that came.
    pub(crate) received: u64,
    /// Those that came again.
    pub(crate) twice: u64,
    /// Those that the broker said it has lost: overwritten, or of unknown fate.
    pub(crate) told: u64,
    /// How often the subscriber connected.
    pub(crate) connects: u64,
    /// The number behind the highest that came.
    pub(crate) next: u64,
    /// When the last new one came, on the load's clock.
    pub(crate) last: u64,
}

impl Ledger {
    /// A message came at `now`.
    pub(crate) fn came(&mut self, stamp: Stamp, now: u64) {
        let (word, bit) = ((stamp.number / 64) as usize, 1 << (stamp.number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.twice += 1;
            return;
        }
        self.seen[word] |= bit;
        self.received += 1;
        self.next = self.next.max(stamp.number + 1);
        self.last = now;
    }

    /// Whether everything has come, or was told to be lost.
    pub(crate) fn is_complete(&self, published: u64) -> bool {
        self.received + self.told >= published
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_and_what_does_not_come_is_counted() {
        let mut ledger = Ledger::default();
        for number in [0, 1, 130, 1, 64] {
            ledger.came(Stamp { tenth: 0, number, due: 0 }, number);
        }
        assert_eq!((ledger.received, ledger.twice, ledger.next, ledger.last), (4, 1, 131, 64));
        assert!(!ledger.is_complete(5) && ledger.is_complete(4));
        ledger.told = 1;
        assert!(ledger.is_complete(5));
    }
}
