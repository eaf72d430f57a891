//! Sums over flows, for metrics: by peer, rule, protocol and who opened them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::policy::Protocol;

/// The most kinds of flows that are told apart. Further ones count as of the rule `other`, so that a file with thousands
/// of rules makes no thousands of time series.
const MOST: usize = 256;

/// A kind of flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) peer: Arc<str>,
    pub(crate) protocol: Protocol,
    pub(crate) by_peer: bool,
    /// The rule that it follows. Empty: none.
    pub(crate) rule: Arc<str>,
}

/// The sums of a kind of flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) running: u64,
    pub(crate) opened: u64,
    pub(crate) to_peer: u64,
    pub(crate) from_peer: u64,
    pub(crate) to_peer_link: u64,
    pub(crate) from_peer_link: u64,
}

impl Sums {
    /// Adds a flow's bytes, and its bytes on the link: to the peer, and from it.
    pub(super) fn add(&mut self, bytes: (u64, u64), link: (u64, u64)) {
        self.to_peer += bytes.0;
        self.from_peer += bytes.1;
        self.to_peer_link += link.0;
        self.from_peer_link += link.1;
    }
}

/// All sums.
#[derive(Debug, Default)]
pub(crate) struct Totals(BTreeMap<Group, Sums>);

impl Totals {
    /// The sums of a kind of flow, or of all others like it if there are too many kinds.
    pub(crate) fn of(&mut self, group: &Group) -> &mut Sums {
        let is_new = !self.0.contains_key(group);
        let group = if is_new && self.0.len() >= MOST {
            Group { rule: "other".into(), ..group.clone() }
        } else {
            group.clone()
        };
        self.0.entry(group).or_default()
    }

    /// Returns all sums.
    pub(crate) fn all(&self) -> BTreeMap<Group, Sums> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_rules_are_not_a_thousand_series() {
        let mut totals = Totals::default();
        for number in 0..1_000 {
            let rule = format!("rule {number}").into();
            let group = Group { peer: "far".into(), protocol: Protocol::Tcp, by_peer: false, rule };
            totals.of(&group).opened += 1;
        }
        let all = totals.all();
        assert_eq!((all.len(), all.values().map(|sums| sums.opened).sum::<u64>()), (MOST + 1, 1_000));
    }
}
