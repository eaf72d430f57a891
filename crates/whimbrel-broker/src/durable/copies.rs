//! The brokers that have messages on disk.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, LAST_SEQUENCE, Origin};

use crate::mutants::{Mutant, planted};

/// The most ranges that are remembered of a broker. Beyond, the lowest is forgotten, so that its messages count as not confirmed.
const MOST_RANGES: usize = 4_096;

/// The copies of a channel's messages that other brokers confirmed. A broker counts once for a message, and only if it is configured.
#[derive(Debug)]
pub struct Copies {
    own: Origin,
    needed: usize,
    /// Messages of this run.
    confirmed: BTreeMap<BrokerId, Ranges>,
    /// Messages of other runs that somebody waits for, how many do, and who has them.
    sought: BTreeMap<(Origin, u64), Sought>,
}

#[derive(Debug, Default)]
struct Sought {
    waiting: usize,
    by: BTreeSet<BrokerId>,
}

impl Copies {
    /// Creates the record with nothing confirmed. `own` is this run. `needed` of the `peers` must confirm each message.
    pub fn new(own: Origin, peers: &[BrokerId], needed: usize) -> Self {
        let confirmed = peers.iter().map(|peer| (*peer, Ranges::default())).collect();
        Self { own, needed, confirmed, sought: BTreeMap::new() }
    }

    /// Returns the number of other brokers that must confirm a message.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// A broker has these messages on disk.
    pub fn confirm(&mut self, by: BrokerId, origin: Origin, range: Range) {
        let Some(confirmed) = self.confirmed.get_mut(&by) else { return };
        if range.first == 0 || range.last > LAST_SEQUENCE {
            return;
        }
        if origin == self.own {
            confirmed.insert(range);
            confirmed.keep_highest(MOST_RANGES);
        }
        for (_, sought) in self.sought.range_mut((origin, range.first)..=(origin, range.last)) {
            sought.by.insert(by);
        }
    }

    /// Returns whether enough brokers have a message.
    pub fn is_enough(&self, origin: Origin, sequence: u64) -> bool {
        let number = if origin == self.own {
            self.confirmed.values().filter(|confirmed| confirmed.contains(sequence)).count()
        } else {
            self.sought.get(&(origin, sequence)).map_or(0, |sought| sought.by.len())
        };
        number + usize::from(planted(Mutant::OneCopyCountsTwice)) >= self.needed
    }

    /// Records that a publisher waits for a message. If it belongs to another run, the peers are asked about it from now on.
    pub fn seek(&mut self, origin: Origin, sequence: u64) {
        if origin != self.own {
            self.sought.entry((origin, sequence)).or_default().waiting += 1;
        }
    }

    /// Somebody waits no longer.
    pub fn give_up(&mut self, origin: Origin, sequence: u64) {
        if let Some(sought) = self.sought.get_mut(&(origin, sequence)) {
            sought.waiting -= 1;
            if sought.waiting == 0 {
                self.sought.remove(&(origin, sequence));
            }
        }
    }

    /// Returns the messages of other runs that are waited for and that not enough brokers have, as ranges, at most `most` of them.
    pub fn sought(&self, most: usize) -> Vec<(Origin, Ranges)> {
        let mut sought: BTreeMap<Origin, Ranges> = BTreeMap::new();
        let open = self.sought.iter().filter(|(_, sought)| sought.by.len() < self.needed);
        for ((origin, sequence), _) in open.take(most) {
            sought.entry(*origin).or_default().insert(Range { first: *sequence, last: *sequence });
        }
        sought.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Origin = Origin { broker: BrokerId(1), epoch: 7 };
    const FORMER: Origin = Origin { broker: BrokerId(1), epoch: 6 };
    const PEERS: [BrokerId; 2] = [BrokerId(2), BrokerId(3)];

    fn range(first: u64, last: u64) -> Range {
        Range { first, last }
    }

    #[test]
    fn a_broker_counts_once_and_a_stranger_never() {
        let mut copies = Copies::new(OWN, &PEERS, 2);
        copies.confirm(PEERS[0], OWN, range(1, 5));
        copies.confirm(PEERS[0], OWN, range(3, 9));
        copies.confirm(BrokerId(9), OWN, range(1, 9));
        assert!(!copies.is_enough(OWN, 3));
        copies.confirm(PEERS[1], OWN, range(3, 3));
        assert!(copies.is_enough(OWN, 3) && !copies.is_enough(OWN, 4) && !copies.is_enough(OWN, 10));
        assert!(Copies::new(OWN, &[], 0).is_enough(OWN, 1));
    }

    #[test]
    fn messages_of_other_runs_are_asked_about_while_somebody_waits() {
        let mut copies = Copies::new(OWN, &PEERS, 1);
        copies.confirm(PEERS[0], FORMER, range(1, 9));
        copies.seek(FORMER, 4);
        copies.seek(FORMER, 4);
        copies.seek(FORMER, 5);
        assert!(!copies.is_enough(FORMER, 4), "nobody was asked yet");
        assert_eq!(copies.sought(64), [(FORMER, Ranges::of(range(4, 5)))]);
        copies.confirm(PEERS[1], FORMER, range(4, 4));
        assert!(copies.is_enough(FORMER, 4) && !copies.is_enough(FORMER, 5));
        copies.give_up(FORMER, 4);
        assert!(copies.is_enough(FORMER, 4), "another still waits");
        copies.give_up(FORMER, 4);
        copies.give_up(FORMER, 5);
        assert!(copies.sought.is_empty());
    }

    #[test]
    fn little_is_remembered_of_a_broker_that_confirms_every_second_message() {
        let mut copies = Copies::new(OWN, &PEERS, 1);
        for sequence in (1..4 * MOST_RANGES as u64).step_by(2) {
            copies.confirm(PEERS[0], OWN, range(sequence, sequence));
        }
        assert_eq!(copies.confirmed[&PEERS[0]].len(), MOST_RANGES);
        assert!(!copies.is_enough(OWN, 1) && copies.is_enough(OWN, 4 * MOST_RANGES as u64 - 1));
    }
}
