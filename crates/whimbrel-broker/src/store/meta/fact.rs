//! Facts about durable subscriptions, which brokers tell each other.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_pubsub::coverage::Coverage;
use whimbrel_pubsub::message::ChannelId;

use super::core::Meta;
use super::error::MetaError;
use super::state::State;
use super::subscription::{DurableSubscription, SubscriptionName, Tombstone};
use super::tables;
use crate::durable::succession::{Known, Life, Step};

/// The longest that the memory of an ended subscription may last (30 days).
pub const LONGEST_MEMORY: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Something that a broker knows about a durable subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// There is one.
    Kept(DurableSubscription),
    /// A part of its coverage.
    Covered {
        /// Its name.
        name: SubscriptionName,
        /// Its life.
        life: Life,
        /// The digest of its filter and selector; brokers of before do not say it.
        selects: Option<u64>,
        /// The part.
        coverage: Coverage,
    },
    /// It was ended.
    Ended {
        /// Its name.
        name: SubscriptionName,
        /// Its life.
        life: Life,
        /// The time for which that is still remembered.
        left: Duration,
    },
}

/// A change that facts make.
#[derive(Debug)]
pub(super) enum Change {
    /// The subscription, and whether its coverage begins anew.
    Keep(DurableSubscription, bool),
    End(SubscriptionName, Tombstone),
}

impl Fact {
    /// Returns the subscription.
    pub fn name(&self) -> &SubscriptionName {
        match self {
            Self::Kept(subscription) => &subscription.name,
            Self::Covered { name, .. } | Self::Ended { name, .. } => name,
        }
    }
}

impl Meta {
    /// Returns the knowledge about a name.
    pub fn known(&self, name: &SubscriptionName) -> Known {
        self.writer.state().known(name)
    }

    /// Returns the channels of a subscription that is there, or was ended since this run began.
    pub fn channels_of(&self, name: &SubscriptionName) -> Option<Vec<ChannelId>> {
        self.writer.state().channels_of(name).map(<[_]>::to_vec)
    }

    /// Returns whether a subscription is there and selects this, by the [digest](DurableSubscription::selects).
    pub fn has_selection(&self, name: &SubscriptionName, selects: u64) -> bool {
        self.writer.state().has_selection(name, selects)
    }

    /// Returns all that is known about a name. `wall_ms` is the time of day, milliseconds since 1970.
    pub fn facts_of(&self, name: &SubscriptionName, wall_ms: u64) -> Vec<Fact> {
        let state = self.writer.state();
        if let Some(subscription) = state.subscription(name) {
            let subscription = DurableSubscription::clone(subscription);
            let coverage = state.coverage(name).cloned().unwrap_or_default();
            drop(state);
            let (life, selects) = (subscription.life(), Some(subscription.selects()));
            let covered = coverage.parts().into_iter().map(|coverage| Fact::Covered {
                name: name.clone(),
                life,
                selects,
                coverage,
            });
            return std::iter::once(Fact::Kept(subscription)).chain(covered).collect();
        }
        let ended = state.tombstone(name).map(|tombstone| Fact::Ended {
            name: name.clone(),
            life: tombstone.life(),
            left: Duration::from_millis(tombstone.ends_ms.saturating_sub(wall_ms)),
        });
        ended.into_iter().collect()
    }

    /// Returns the next names behind `after` of subscriptions that are there or were ended, at most `most`.
    pub fn names_after(&self, after: Option<&SubscriptionName>, most: usize) -> Vec<SubscriptionName> {
        self.writer.state().names_after(after, most)
    }

    /// Takes what another broker tells, in one transaction. It is on disk when this returns, but coverage, which is written later. Returns the
    /// consequence of each fact.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn learn(&self, facts: &[Fact], wall_ms: u64) -> Result<Vec<Step>, MetaError> {
        let _one = self.writer.changing();
        let (steps, changes) = consequences(&self.writer.state(), facts, wall_ms);
        if !changes.is_empty() {
            self.writer.write_now(
                |transaction| {
                    changes.iter().try_for_each(|change| match change {
                        Change::Keep(subscription, is_anew) => {
                            tables::put_subscription(transaction, subscription, *is_anew)
                        }
                        Change::End(name, tombstone) => tables::put_tombstone(transaction, name, *tombstone),
                    })
                },
                |state| {
                    for change in &changes {
                        match change {
                            Change::Keep(subscription, is_anew) => state.subscribe(subscription, *is_anew),
                            Change::End(name, tombstone) => state.unsubscribe(name, *tombstone),
                        }
                    }
                },
            )?;
        }
        for fact in facts {
            if let Fact::Covered { name, life, selects, coverage } = fact {
                self.add_coverage(name, (*life, *selects), coverage);
            }
        }
        // Memories may have given way to others.
        self.writer.write_later();
        Ok(steps)
    }

    /// Adds coverage, if it is of the life that is known and of what is selected here. What is too much comes again.
    fn add_coverage(
        &self,
        name: &SubscriptionName,
        (life, selects): (Life, Option<u64>),
        coverage: &Coverage,
    ) {
        let mut state = self.writer.state();
        let is_same = matches!(state.known(name), Known::Alive(known) if known.is_same(life));
        if !is_same || selects.is_some_and(|selects| !state.has_selection(name, selects)) {
            return;
        }
        for (channel, coverage) in coverage.iter() {
            for (origin, ranges) in coverage.iter() {
                ranges.iter().for_each(|range| drop(state.add(name, channel, origin, range)));
            }
        }
        drop(state);
        self.writer.write_later();
    }
}

/// The consequence of each fact, and the changes that these make.
pub(super) fn consequences(state: &State, facts: &[Fact], wall_ms: u64) -> (Vec<Step>, Vec<Change>) {
    // What an earlier fact of the same batch has changed.
    let mut changed: BTreeMap<&SubscriptionName, (Known, Option<DurableSubscription>)> = BTreeMap::new();
    let (mut steps, mut changes, mut room) = (Vec::new(), Vec::new(), state.room());
    for fact in facts {
        let name = fact.name();
        let (known, kept) = changed.get(name).cloned().unwrap_or_else(|| {
            (state.known(name), state.subscription(name).map(|kept| DurableSubscription::clone(kept)))
        });
        let is_alive = matches!(known, Known::Alive(_));
        let step = match fact {
            Fact::Kept(told) => {
                let selection = kept.as_ref().map_or(Ordering::Equal, |kept| told.selection_order(kept));
                match known.hear_alive(told.life(), selection) {
                    Step::GoOn(life) => {
                        // It keeps the channels that it has here.
                        let former = kept.unwrap_or_else(|| told.clone());
                        let Life { born, generation } = life;
                        let kept = DurableSubscription { born, generation, ..former };
                        changed.insert(name, (Known::Alive(life), Some(kept.clone())));
                        changes.push(Change::Keep(kept, false));
                        Step::GoOn(life)
                    }
                    Step::Begin(_) if !is_alive && room == 0 => Step::Keep,
                    Step::Begin(life) => {
                        room -= usize::from(!is_alive);
                        changed.insert(name, (Known::Alive(life), Some(told.clone())));
                        changes.push(Change::Keep(told.clone(), true));
                        Step::Begin(life)
                    }
                    step => step,
                }
            }
            Fact::Ended { life, left, .. } => {
                let step = known.hear_ended(*life);
                let ends_ms = wall_ms.saturating_add((*left).min(LONGEST_MEMORY).as_millis() as u64);
                let has_room = kept.is_some() || state.has_room_for_tombstone(name, ends_ms);
                if let (Step::End(life), true) = (step, has_room) {
                    let tombstone = Tombstone { generation: life.generation, ends_ms, born: life.born };
                    changed.insert(name, (Known::Ended(life), None));
                    changes.push(Change::End(name.clone(), tombstone));
                }
                step
            }
            Fact::Covered { .. } => Step::Keep,
        };
        steps.push(step);
    }
    (steps, changes)
}
