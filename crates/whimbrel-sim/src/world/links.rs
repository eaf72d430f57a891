//! The links between nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_link::{Delivery, Link};
use whimbrel_proto::Time;

/// One direction in which packets travel: the sender, the receiver and the network.
pub(super) type LegKey = (usize, usize, usize);

/// The links, and the ways that lead over them.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<Link>,
    legs: BTreeMap<LegKey, Leg>,
}

/// The route of one network's packets from one node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    link: usize,
    /// How much longer than the link's own delay it takes, for a part that others do not share.
    more: Duration,
}

impl Links {
    /// Leads a way over a link of its own.
    pub(super) fn lay(&mut self, way: LegKey, link: Link) {
        self.legs.insert(way, Leg { link: self.links.len(), more: Duration::ZERO });
        self.links.push(link);
    }

    /// Leads a way over the link of another way. It is `more` longer than the link.
    pub(super) fn share(&mut self, way: LegKey, other: LegKey, more: Duration) {
        let link = self.leg(other).expect("the other way exists").link;
        self.legs.insert(way, Leg { link, more });
    }

    /// The leg on a way, if there is such a way.
    pub(super) fn leg(&self, way: LegKey) -> Option<Leg> {
        self.legs.get(&way).copied()
    }

    /// The link on a way, if there is such a way.
    pub(super) fn link(&mut self, way: LegKey) -> Option<&mut Link> {
        let leg = self.leg(way)?;
        Some(&mut self.links[leg.link])
    }

    /// Sends a packet over a leg. Returns its arrivals.
    pub(super) fn push(
        &mut self,
        leg: Leg,
        now: Time,
        payload: usize,
        ecn_capable: bool,
    ) -> impl Iterator<Item = Delivery> + use<> {
        let verdict = self.links[leg.link].push(now, payload, ecn_capable);
        verdict.deliveries().map(move |delivery| Delivery { at: delivery.at + leg.more, ..delivery })
    }
}
