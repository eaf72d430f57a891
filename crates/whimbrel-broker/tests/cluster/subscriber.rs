//! Subscribers that roam with their state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::roaming::{From, Reader, Recover, Slow, Wish};
use whimbrel_pubsub::coverage::{
    ChannelCoverage, ClusterId, Coverage, Heard, Subscription, SubscriptionId, SubscriptionState, Told,
};
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::node::Node;
use super::taste::Taste;
use super::truth::Name;

/// How the checker knows that a saved state has settled a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Delivered,
    Gone,
    Superseded,
    /// Given up, since there were too many gaps.
    Unknown,
    /// Published before a subscription that began live.
    Before,
}

/// A subscription at a broker.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) node: usize,
    pub(crate) reader: Reader,
    pub(crate) recover: Recover,
    pub(crate) slow: Slow,
    /// Deliveries in a tick.
    pub(crate) budget: u32,
    /// The messages it had when it came, and those it was told of since.
    pub(crate) settled: BTreeMap<Name, How>,
    /// Covered when it came; the checker does not know each by name.
    pub(crate) brought: ChannelCoverage,
    pub(crate) live: bool,
    pub(crate) before: BTreeMap<Origin, u64>,
    /// The highest sequence delivered in order.
    pub(crate) delivered: BTreeMap<Origin, u64>,
    /// Told, and not yet with the subscriber.
    pub(crate) in_flight: VecDeque<(Told, Vec<(Name, How)>)>,
}

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) taste: Taste,
    pub(crate) state: SubscriptionState,
    pub(crate) settled: BTreeMap<Name, How>,
    /// The messages that were reported as unknown and are open.
    pub(crate) unknown: BTreeSet<Name>,
    /// An older state, to which a crash goes back.
    pub(crate) saved: Option<(SubscriptionState, BTreeMap<Name, How>)>,
    pub(crate) attached: Option<Attachment>,
    began: bool,
}

pub(crate) const CHANNEL: ChannelId = ChannelId(0);

impl Subscriber {
    pub(crate) fn new(taste: Taste) -> Self {
        let subscription = Subscription { filter: format!("{taste:?}"), selector: None };
        Self {
            taste,
            state: SubscriptionState::new(SubscriptionId(1), ClusterId(1), subscription),
            settled: BTreeMap::new(),
            unknown: BTreeSet::new(),
            saved: None,
            attached: None,
            began: false,
        }
    }

    pub(crate) fn attach(
        &mut self,
        node: &Node,
        partitions: &[Taste],
        now: std::time::Duration,
        wish: (Recover, Slow, u32, bool),
    ) {
        let (recover, slow, budget, live) = wish;
        let time = node.time(now);
        let live = live && !self.began;
        self.began = true;
        // The state goes through its encoding, as it does in reality.
        let coverage = Coverage::from_text(&self.state.coverage().to_text()).unwrap();
        let brought = coverage.of(CHANNEL).cloned().unwrap_or_default();
        let from = if live { From::Live } else { From::Coverage(brought.clone()) };
        let wanted = self.taste.wanted(partitions);
        let reader = Reader::attach(&node.channel, Wish { wanted, from, recover, slow }, time);
        let before = node.channel.logs().map(|(_, log)| (log.origin(), log.highest())).collect();
        self.attached = Some(Attachment {
            node: node.id,
            reader,
            recover,
            slow,
            budget,
            settled: self.settled.clone(),
            brought,
            live,
            before,
            delivered: BTreeMap::new(),
            in_flight: VecDeque::new(),
        });
    }

    /// The connection is lost, with some of what was on its way.
    pub(crate) fn detach(&mut self, rng: &mut ChaCha8Rng) -> Result<(), String> {
        let Some(attached) = &mut self.attached else { return Ok(()) };
        let arrive = rng.random_range(0..=attached.in_flight.len());
        self.hear(arrive)?;
        self.attached = None;
        Ok(())
    }

    /// So much of what was told reaches the subscriber.
    pub(crate) fn hear(&mut self, most: usize) -> Result<(), String> {
        let Some(attached) = &mut self.attached else { return Ok(()) };
        let arrived: Vec<_> = attached.in_flight.drain(..most.min(attached.in_flight.len())).collect();
        arrived.into_iter().try_for_each(|(told, fates)| self.hear_one(&told, &fates))
    }

    fn hear_one(&mut self, told: &Told, fates: &[(Name, How)]) -> Result<(), String> {
        let heard = self.state.hear(CHANNEL, told).map_err(|error| error.to_string())?;
        if heard == Heard::Repeated {
            return Err(format!("the subscriber had {told:?}"));
        }
        for (name, how) in fates {
            if self.settled.insert(*name, *how).is_some() && *how != How::Before {
                return Err(format!("settled twice: {name:?}, {how:?}"));
            }
        }
        Ok(())
    }

    /// The process crashes and comes back with the state that was saved last.
    pub(crate) fn crash(&mut self) {
        self.attached = None;
        if let Some((state, settled)) = self.saved.clone() {
            (self.state, self.settled) = (state, settled);
        }
    }

    pub(crate) fn save(&mut self) {
        self.saved = Some((self.state.clone(), self.settled.clone()));
    }
}
