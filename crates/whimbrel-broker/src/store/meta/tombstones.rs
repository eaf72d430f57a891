//! The memories of subscriptions that were ended.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::limits::{MOST_TOMBSTONES, MOST_TOMBSTONES_OF_OWNER};
use super::subscription::{SubscriptionName, Tombstone};

/// The memories of ended subscriptions. When there are too many, one of the owner with the most gives way, the one that ends first, so that no
/// owner takes the room of another.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_name: BTreeMap<Arc<SubscriptionName>, Tombstone>,
    /// Those of each owner, by when they end.
    by_owner: BTreeMap<String, BTreeSet<(u64, Arc<SubscriptionName>)>>,
    /// The owners by how many they have, then by which has the one that ends first.
    ranks: BTreeSet<(usize, Reverse<u64>, String)>,
}

/// The part of a name that says whose it is, in front of the first slash. Names without one have an owner in common.
fn owner_of(name: &SubscriptionName) -> &str {
    name.as_str().split_once('/').map_or("", |(owner, _)| owner)
}

impl Tombstones {
    pub(super) fn find(&self, name: &SubscriptionName) -> Option<Tombstone> {
        self.by_name.get(name).copied()
    }

    /// Remembers that a subscription was ended. Returns the memories that gave way.
    pub(super) fn insert(&mut self, name: &SubscriptionName, tombstone: Tombstone) -> Vec<SubscriptionName> {
        self.remove(name);
        let mut given_way = Vec::new();
        while let Some(first) = self.next_to_go(name) {
            self.remove(&first);
            given_way.push(SubscriptionName::clone(&first));
        }
        let name = Arc::new(name.clone());
        self.by_name.insert(Arc::clone(&name), tombstone);
        self.change(owner_of(&name), |own| {
            own.insert((tombstone.ends_ms, Arc::clone(&name)));
        });
        given_way
    }

    /// Whether the memory of a subscription that ends then would not be the next to give way.
    pub(super) fn has_room(&self, name: &SubscriptionName, ends_ms: u64) -> bool {
        let next = self.next_to_go(name).filter(|_| !self.by_name.contains_key(name));
        next.is_none_or(|next| {
            owner_of(&next) != owner_of(name)
                || self.by_name.get(&next).is_some_and(|tombstone| tombstone.ends_ms < ends_ms)
        })
    }

    pub(super) fn remove(&mut self, name: &SubscriptionName) {
        let Some((name, tombstone)) = self.by_name.remove_entry(name) else { return };
        self.change(owner_of(&name), |own| {
            own.remove(&(tombstone.ends_ms, Arc::clone(&name)));
        });
    }

    /// Those whose time is over at `wall_ms`.
    pub(super) fn ended(&self, wall_ms: u64) -> Vec<SubscriptionName> {
        let ended = self.by_name.iter().filter(|(_, tombstone)| tombstone.ends_ms <= wall_ms);
        ended.map(|(name, _)| SubscriptionName::clone(name)).collect()
    }

    /// The names behind `after`, in order.
    pub(super) fn names_after(
        &self,
        after: Option<&SubscriptionName>,
    ) -> impl Iterator<Item = &SubscriptionName> {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.by_name.range::<SubscriptionName, _>(from).map(|(name, _)| &**name)
    }

    /// The memory that has to go before another one of this name fits.
    fn next_to_go(&self, name: &SubscriptionName) -> Option<Arc<SubscriptionName>> {
        let own = self.by_owner.get(owner_of(name));
        let of_own = own.map_or(0, BTreeSet::len);
        let (most, _, greediest) = self.ranks.last()?;
        let first = match own {
            Some(own) if of_own >= MOST_TOMBSTONES_OF_OWNER => own.first(),
            _ if self.by_name.len() < MOST_TOMBSTONES => None,
            Some(own) if of_own >= *most => own.first(),
            _ => self.by_owner.get(greediest)?.first(),
        };
        first.map(|(_, name)| Arc::clone(name))
    }

    /// Changes those of an owner, and its rank.
    fn change(&mut self, owner: &str, change: impl FnOnce(&mut BTreeSet<(u64, Arc<SubscriptionName>)>)) {
        let rank = |own: &BTreeSet<(u64, Arc<SubscriptionName>)>| {
            own.first().map(|(ends_ms, _)| (own.len(), Reverse(*ends_ms), owner.to_owned()))
        };
        let mut own = self.by_owner.remove(owner).unwrap_or_default();
        rank(&own).map(|former| self.ranks.remove(&former));
        change(&mut own);
        if let Some(rank) = rank(&own) {
            self.ranks.insert(rank);
            self.by_owner.insert(owner.to_owned(), own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SubscriptionName {
        SubscriptionName::new(text).unwrap()
    }

    fn ended(ends_ms: u64) -> Tombstone {
        Tombstone { generation: 1, ends_ms, born: 0 }
    }

    #[test]
    fn regression_an_owner_who_ends_many_takes_no_room_of_others() {
        let mut tombstones = Tombstones::default();
        tombstones.insert(&name("other/fish"), ended(1));
        for at in 0..MOST_TOMBSTONES_OF_OWNER as u64 {
            assert!(tombstones.insert(&name(&format!("many/{at}")), ended(10 + at)).is_empty());
        }
        assert!(!tombstones.has_room(&name("many/old"), 10) && tombstones.has_room(&name("many/old"), 11));
        assert_eq!(tombstones.insert(&name("many/new"), ended(9)), [name("many/0")]);
        assert!(tombstones.find(&name("many/0")).is_none() && tombstones.find(&name("other/fish")).is_some());
        assert!(tombstones.find(&name("many/new")).is_some(), "what is ended now is remembered");
    }

    #[test]
    fn regression_a_hundred_owners_who_fill_all_room_stop_nobody_from_ending() {
        let mut tombstones = Tombstones::default();
        let owners = MOST_TOMBSTONES / MOST_TOMBSTONES_OF_OWNER;
        for at in 0..MOST_TOMBSTONES {
            let (owner, number) = (at % owners, at / owners);
            let given_way =
                tombstones.insert(&name(&format!("greedy{owner:03}/{number:04}")), ended(at as u64));
            assert!(given_way.is_empty());
        }
        // Each takes from those who have the most, until they have as many.
        for at in 0..200_u64 {
            let own = name(&format!("modest/{at:04}"));
            assert!(tombstones.has_room(&own, 1));
            let given_way = tombstones.insert(&own, ended(1 << 40));
            assert_eq!(given_way.len(), 1);
            assert!(given_way[0].as_str().starts_with("greedy"), "{given_way:?}");
            assert_eq!(tombstones.by_name.len(), MOST_TOMBSTONES);
        }
        assert_eq!(tombstones.names_after(Some(&name("modest"))).count(), 200);
        // All give way alike.
        assert!(
            tombstones
                .by_owner
                .values()
                .all(|own| own.len() <= MOST_TOMBSTONES_OF_OWNER - 2 || own.len() == 200)
        );
        let all: Vec<_> = tombstones.by_name.keys().cloned().collect();
        all.iter().for_each(|name| tombstones.remove(name));
        assert!(tombstones.by_owner.is_empty() && tombstones.ranks.is_empty());
    }
}
