//! The rules by which one of several reports about a durable subscription counts.
//! Brokers hear of subscriptions in any order, possibly repeatedly. Whatever the order, all reach the same state.

use std::cmp::Ordering;

use whimbrel_pubsub::message::BrokerId;

use crate::mutants::{Mutant, planted};

/// A life of a name: from when the subscription was made to when it was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When it was made, by the clock of the broker that made it: milliseconds since 1970, times 65,536, and a random rest. 0: not known.
    pub born: u64,
    /// The number of times it was attached.
    pub generation: u64,
}

/// An attachment of a subscription, at a broker. Of two in one life, the greater goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The number of times the subscription was attached, this time included.
    pub generation: u64,
    /// The broker that serves it.
    pub broker: BrokerId,
}

/// The knowledge about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// There was none.
    Nothing,
    /// There is one.
    Alive(Life),
    /// It was ended.
    Ended(Life),
}

/// The consequence of what another broker tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The knowledge stays. It is as new, or newer.
    Keep,
    /// It is the same life, which has gone on.
    GoOn(Life),
    /// Another life takes its place. Coverage begins anew.
    Begin(Life),
    /// It was ended.
    End(Life),
}

impl Life {
    /// Returns whether both are one life. One whose birth is not known may be any.
    pub fn is_same(self, other: Self) -> bool {
        self.born == other.born || self.born == 0 || other.born == 0
    }

    /// The same life with what both know of it.
    fn joined(self, other: Self) -> Self {
        Self { born: self.born.max(other.born), generation: self.generation.max(other.generation) }
    }
}

impl Claim {
    /// Returns whether it has to end for the sake of another one.
    pub fn gives_way_to(self, other: Self) -> bool {
        if planted(Mutant::OlderGenerationWins) {
            return self > other;
        }
        if planted(Mutant::TiesStay) { self.generation < other.generation } else { self < other }
    }
}

impl Known {
    /// Returns the life, whether it has ended or not.
    pub fn life(self) -> Option<Life> {
        match self {
            Self::Nothing => None,
            Self::Alive(life) | Self::Ended(life) => Some(life),
        }
    }

    /// Another broker has the subscription. `selection` compares what it selects there with what it selects here, in an order that all brokers
    /// use; it is equal if nothing is known here.
    pub fn hear_alive(self, told: Life, selection: Ordering) -> Step {
        match self {
            Self::Nothing => Step::Begin(told),
            // Two made the name without hearing of each other. All brokers have to choose the same one.
            Self::Alive(known) if selection.is_ne() => {
                let is_later =
                    (told.born, told.generation, selection) > (known.born, known.generation, Ordering::Equal);
                if is_later && !planted(Mutant::RivalsStay) { Step::Begin(told) } else { Step::Keep }
            }
            Self::Alive(known) if known.is_same(told) => {
                let joined = known.joined(told);
                if joined == known { Step::Keep } else { Step::GoOn(joined) }
            }
            Self::Alive(known) => {
                if told.born > known.born {
                    Step::Begin(told)
                } else {
                    Step::Keep
                }
            }
            // A life of which nobody knows the birth may have begun after the end only if both do not.
            Self::Ended(ended) if ended.born == 0 && told.born == 0 => {
                if told.generation > ended.generation {
                    Step::Begin(told)
                } else {
                    Step::Keep
                }
            }
            Self::Ended(ended) => {
                if told.born > ended.born {
                    Step::Begin(told)
                } else {
                    Step::Keep
                }
            }
        }
    }

    /// Another broker knows that the subscription was ended.
    pub fn hear_ended(self, told: Life) -> Step {
        match self {
            Self::Nothing => Step::End(told),
            Self::Alive(known) if known.born == 0 && told.born == 0 => {
                if told.generation >= known.generation { Step::End(told) } else { Step::Keep }
            }
            Self::Alive(known) => {
                if known.born <= told.born {
                    Step::End(told)
                } else {
                    Step::Keep
                }
            }
            Self::Ended(known) => {
                let later = (told.born, told.generation) > (known.born, known.generation);
                if later { Step::End(told) } else { Step::Keep }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn life() -> impl Strategy<Value = Life> {
        (1_u64..4, 1_u64..4).prop_map(|(born, generation)| Life { born, generation })
    }

    /// The knowledge of a name, and its selection.
    type Whole = (Known, u8);

    fn after((known, selects): Whole, (is_alive, told, told_selects): (bool, Life, u8)) -> Whole {
        let selection = match known {
            Known::Alive(_) => told_selects.cmp(&selects),
            _ => Ordering::Equal,
        };
        let step = if is_alive { known.hear_alive(told, selection) } else { known.hear_ended(told) };
        match step {
            Step::Keep => (known, selects),
            Step::GoOn(life) => (Known::Alive(life), selects),
            Step::Begin(life) => (Known::Alive(life), told_selects),
            Step::End(life) => (Known::Ended(life), 0),
        }
    }

    proptest! {
        #[test]
        fn all_come_to_know_the_same_in_whatever_order(
            told in proptest::collection::vec((any::<bool>(), life(), 1_u8..4), 0..8),
            rotation in 0_usize..8,
        ) {
            let nothing = (Known::Nothing, 0);
            let one = told.iter().fold(nothing, |known, told| after(known, *told));
            let mut other = told.clone();
            other.reverse();
            if !other.is_empty() {
                let middle = rotation % other.len();
                other.rotate_left(middle);
            }
            let other = other.iter().chain(&told).fold(nothing, |known, told| after(known, *told));
            prop_assert_eq!(one, other);
        }

        /// Also if nobody knows when it was made. Each tells the other until neither learns anything.
        #[test]
        fn regression_two_that_made_one_name_agree_and_fall_silent(
            one in (0_u64..3, 1_u64..4, 1_u8..4),
            other in (0_u64..3, 1_u64..4, 1_u8..4),
        ) {
            let whole = |(born, generation, selects)| (Known::Alive(Life { born, generation }), selects);
            let (mut one, mut other) = (whole(one), whole(other));
            let hear = |(known, selects): Whole, told: Whole| {
                let life = told.0.life().unwrap();
                after((known, selects), (true, life, told.1))
            };
            for _ in 0..2 {
                other = hear(other, one);
                one = hear(one, other);
            }
            prop_assert_eq!(one, other);
            prop_assert_eq!(hear(one, other), one);
        }

        #[test]
        fn of_two_attachments_exactly_one_gives_way(
            one in (1_u64..3, 1_u64..4),
            other in (1_u64..3, 1_u64..4),
        ) {
            let claim = |(generation, broker)| Claim { generation, broker: BrokerId(broker) };
            let (one, other) = (claim(one), claim(other));
            prop_assert_eq!(one.gives_way_to(other) != other.gives_way_to(one), one != other);
        }
    }

    #[test]
    fn an_end_counts_for_its_life_and_not_for_the_next() {
        let life = |born, generation| Life { born, generation };
        let ended = Known::Ended(life(5, 2));
        assert_eq!(
            ended.hear_alive(life(5, 9), Ordering::Equal),
            Step::Keep,
            "one that was attached behind the end's back"
        );
        assert_eq!(
            ended.hear_alive(life(0, 9), Ordering::Equal),
            Step::Keep,
            "one that only its subscriber knew"
        );
        assert_eq!(ended.hear_alive(life(6, 1), Ordering::Equal), Step::Begin(life(6, 1)));
        assert_eq!(Known::Alive(life(6, 1)).hear_ended(life(5, 2)), Step::Keep);
        assert_eq!(
            Known::Alive(life(5, 3)).hear_alive(life(5, 2), Ordering::Equal),
            Step::Keep,
            "an older generation"
        );
        assert_eq!(Known::Alive(life(0, 3)).hear_alive(life(5, 2), Ordering::Equal), Step::GoOn(life(5, 3)));
    }
}
