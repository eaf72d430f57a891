//! Which of several words about a durable subscription counts.
//!
//! Brokers hear of subscriptions in any order, and again and again. Whatever the order, all come to know the same.

use crate::mutants::{Mutant, planted};

/// A life of a name: from when the subscription was made to when it was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When it was made, by the clock of the broker that made it: milliseconds since 1970, times 65,536, and a random rest. 0: not known.
    pub born: u64,
    /// How often it was attached.
    pub generation: u64,
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
    /// Whether both are one life. One whose birth is not known may be any.
    pub fn is_same(self, other: Self) -> bool {
        self.born == other.born || self.born == 0 || other.born == 0
    }

    /// The same life with what both know of it.
    fn joined(self, other: Self) -> Self {
        Self { born: self.born.max(other.born), generation: self.generation.max(other.generation) }
    }
}

impl Known {
    /// The life, whether it has ended or not.
    pub fn life(self) -> Option<Life> {
        match self {
            Self::Nothing => None,
            Self::Alive(life) | Self::Ended(life) => Some(life),
        }
    }

    /// Another broker has the subscription.
    pub fn hear_alive(self, told: Life) -> Step {
        match self {
            Self::Nothing => Step::Begin(told),
            Self::Alive(known) if known.is_same(told) => {
                let joined = known.joined(told);
                let joined = if planted(Mutant::OlderGenerationWins) {
                    Life { generation: told.generation, ..joined }
                } else {
                    joined
                };
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

    fn after(known: Known, (is_alive, told): (bool, Life)) -> Known {
        let step = if is_alive { known.hear_alive(told) } else { known.hear_ended(told) };
        match step {
            Step::Keep => known,
            Step::GoOn(life) | Step::Begin(life) => Known::Alive(life),
            Step::End(life) => Known::Ended(life),
        }
    }

    proptest! {
        #[test]
        fn all_come_to_know_the_same_in_whatever_order(
            told in proptest::collection::vec((any::<bool>(), life()), 0..8),
            rotation in 0_usize..8,
        ) {
            let one = told.iter().fold(Known::Nothing, |known, told| after(known, *told));
            let mut other = told.clone();
            other.reverse();
            if !other.is_empty() {
                let middle = rotation % other.len();
                other.rotate_left(middle);
            }
            let other = other.iter().chain(&told).fold(Known::Nothing, |known, told| after(known, *told));
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn an_end_counts_for_its_life_and_not_for_the_next() {
        let life = |born, generation| Life { born, generation };
        let ended = Known::Ended(life(5, 2));
        assert_eq!(ended.hear_alive(life(5, 9)), Step::Keep, "one that was attached behind the end's back");
        assert_eq!(ended.hear_alive(life(0, 9)), Step::Keep, "one that only its subscriber knew");
        assert_eq!(ended.hear_alive(life(6, 1)), Step::Begin(life(6, 1)));
        assert_eq!(Known::Alive(life(6, 1)).hear_ended(life(5, 2)), Step::Keep);
        assert_eq!(Known::Alive(life(5, 3)).hear_alive(life(5, 2)), Step::Keep, "an older generation");
        assert_eq!(Known::Alive(life(0, 3)).hear_alive(life(5, 2)), Step::GoOn(life(5, 3)));
    }
}
