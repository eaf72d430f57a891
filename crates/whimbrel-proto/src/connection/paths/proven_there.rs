//! Whether the peer has validated our address on a path. It has once one of our answers to its challenges has arrived.

use crate::wire::sack::Sack;

/// The number of packets with answers that are remembered: one more than the challenges that the peer sends to one
/// address.
const REMEMBERED: usize = 4;
const NONE: u64 = u64::MAX;

/// Whether the peer has validated our address. Answers are remembered by their packet numbers: recovery forgets a
/// packet that it declared lost, which may be delayed and arrive after all.
#[derive(Debug)]
pub(in crate::connection) enum ProvenThere {
    /// Not as far as we know. Holds the numbers of the packets in which we answered, the latest first.
    No(Option<Box<[u64; REMEMBERED]>>),
    Yes,
}

impl ProvenThere {
    pub(in crate::connection) fn new(proven: bool) -> Self {
        if proven { Self::Yes } else { Self::No(None) }
    }

    pub(in crate::connection) fn is_proven(&self) -> bool {
        matches!(self, Self::Yes)
    }

    /// Records that packet `number` holds an answer.
    pub(in crate::connection) fn on_answer_sent(&mut self, number: u64) {
        if let Self::No(answers) = self {
            let answers = answers.get_or_insert_with(|| Box::new([NONE; REMEMBERED]));
            answers.rotate_right(1);
            answers[0] = number;
        }
    }

    /// Handles a SACK of the path. Returns whether it shows for the first time that an answer arrived.
    pub(in crate::connection) fn on_sack(&mut self, sack: &Sack) -> bool {
        let Self::No(Some(answers)) = self else { return false };
        let arrived = |number: &u64| sack.ranges.iter().any(|range| range.contains(number));
        let news = answers.iter().any(arrived);
        if news {
            *self = Self::Yes;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sack(numbers: std::ops::RangeInclusive<u64>) -> Sack {
        Sack { ranges: vec![numbers], ..Sack::default() }
    }

    #[test]
    fn one_of_the_last_answers_has_to_arrive() {
        let mut proven = ProvenThere::new(false);
        assert!(!proven.on_sack(&sack(0..=100)), "there was no answer");
        (1..=5).for_each(|number| proven.on_answer_sent(10 * number));
        assert!(!proven.on_sack(&sack(0..=19)) && !proven.on_sack(&sack(51..=90)));
        assert!(!proven.is_proven());
        assert!(proven.on_sack(&sack(15..=20)) && proven.is_proven());
        assert!(!proven.on_sack(&sack(0..=90)), "it is no news");
    }
}
