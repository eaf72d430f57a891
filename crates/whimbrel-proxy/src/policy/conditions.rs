//! The conditions that hold towards a peer. A condition begins and ends only after it was so for a while, so that flows do not
//! change with every sample.

use std::time::Duration;

use super::condition::{Condition, Network};

/// How long the network must be so before a condition begins, and how long it must be otherwise before it ends.
const BEGINS: Duration = Duration::from_secs(2);
const ENDS: Duration = Duration::from_secs(5);

/// The conditions of all rules for one peer.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<Watched>);

#[derive(Clone, Debug)]
struct Watched {
    condition: Condition,
    holds: bool,
    /// How long the samples have said otherwise.
    otherwise: Duration,
}

impl Conditions {
    /// These conditions. One that is among `before` goes on as it was; another does not hold yet.
    pub fn new<'a>(conditions: impl IntoIterator<Item = &'a Condition>, before: &Self) -> Self {
        let mut all: Vec<Watched> = Vec::new();
        for condition in conditions {
            if all.iter().all(|known| known.condition != *condition) {
                let new =
                    || Watched { condition: condition.clone(), holds: false, otherwise: Duration::ZERO };
                let known = before.0.iter().find(|known| known.condition == *condition);
                all.push(known.cloned().unwrap_or_else(new));
            }
        }
        Self(all)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a sample of the network, so long after the last one. Returns the conditions that begin (`true`) or end now.
    pub fn sample(&mut self, network: &Network, since: Duration) -> Vec<(Condition, bool)> {
        let mut changed = Vec::new();
        for watched in &mut self.0 {
            match watched.condition.holds(network, watched.holds) {
                Some(now) if now != watched.holds => watched.otherwise += since,
                _ => {
                    watched.otherwise = Duration::ZERO;
                    continue;
                }
            }
            if watched.otherwise >= if watched.holds { ENDS } else { BEGINS } {
                watched.otherwise = Duration::ZERO;
                watched.holds = !watched.holds;
                changed.push((watched.condition.clone(), watched.holds));
            }
        }
        changed
    }

    /// Returns whether all of these hold.
    pub fn hold(&self, conditions: &[Condition]) -> bool {
        let holds =
            |condition: &Condition| self.0.iter().any(|known| known.condition == *condition && known.holds);
        conditions.iter().all(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_begins_and_ends_after_a_while() {
        let condition: Condition = "loss > 10%".parse().unwrap();
        let all = [condition];
        let mut conditions = Conditions::new(&all, &Conditions::default());
        let second = Duration::from_secs(1);
        let sample = |conditions: &mut Conditions, loss| {
            let changed = conditions.sample(&Network { loss, ..Network::default() }, second);
            changed.into_iter().map(|(_, holds)| holds).collect::<Vec<_>>()
        };
        // One bad sample means nothing, and what is unknown changes nothing.
        for loss in [Some(0.2), Some(0.0), Some(0.2), None, Some(0.2)] {
            assert!(sample(&mut conditions, loss).is_empty());
        }
        assert_eq!(sample(&mut conditions, Some(0.2)), [true]);
        assert!(conditions.hold(&all) && conditions.hold(&[]));
        for loss in [0.0, 0.0, 0.0, 0.0, 0.095, 0.0, 0.0, 0.0, 0.0] {
            assert!(sample(&mut conditions, Some(loss)).is_empty());
        }
        // Other rules keep what holds.
        let mut conditions = Conditions::new(&all, &conditions);
        assert!(conditions.hold(&all));
        assert_eq!(sample(&mut conditions, Some(0.0)), [false]);
        assert!(!conditions.hold(&all));
    }
}
