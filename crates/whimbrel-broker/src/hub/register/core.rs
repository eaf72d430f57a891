//! The register: all subscriptions and publishers, and their condition.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use whimbrel_pubsub::message::ChannelId;

use super::change::Change;
use super::client::Client;
use super::count::Rate;
use super::flow::Flow;
use super::publisher::PublisherRecord;
use super::subscriber::SubscriberRecord;
use super::sums::Sums;
use crate::Time;

/// A subscription is slow if it has not looked at what arrived so many looks ago.
const LATE_LOOKS: usize = 3;
/// The most slow subscriptions that left whose end is told.
const MOST_LEFT: usize = 64;

/// The subscriptions and publishers of a broker.
#[derive(Debug, Default)]
pub struct Register(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    subscribers: BTreeMap<u64, Arc<SubscriberRecord>>,
    publishers: BTreeMap<u64, Arc<PublisherRecord>>,
    last: u64,
    /// The sums of those that have left.
    past: Sums,
    channels: BTreeMap<ChannelId, ChannelRates>,
    /// The ends of channels at the last looks, the oldest first.
    ends: VecDeque<BTreeMap<ChannelId, u64>>,
    looked: Option<Time>,
    left: Vec<(Arc<SubscriberRecord>, Time)>,
}

#[derive(Debug, Default)]
struct ChannelRates {
    arrived: Rate,
    delivered: Rate,
    /// Deliveries to subscriptions that have left.
    past: u64,
}

impl Register {
    pub(in crate::hub) fn subscribe(&self, record: SubscriberRecord) -> (u64, Arc<SubscriberRecord>) {
        let (mut inner, record) = (self.inner(), Arc::new(record));
        inner.last += 1;
        let number = inner.last;
        inner.subscribers.insert(number, Arc::clone(&record));
        (number, record)
    }

    pub(in crate::hub) fn unsubscribe(&self, number: u64) {
        let mut inner = self.inner();
        let Some(record) = inner.subscribers.remove(&number) else { return };
        for place in &record.places {
            inner.channels.entry(place.channel).or_default().past += place.delivered.value();
        }
        inner.past.add_subscriber(&record);
        if let Some(since) = record.slow_since()
            && inner.left.len() < MOST_LEFT
        {
            inner.left.push((record, since));
        }
    }

    pub(in crate::hub) fn publish(&self, client: Arc<Client>, since: Time) -> (u64, Arc<PublisherRecord>) {
        let (mut inner, record) = (self.inner(), Arc::new(PublisherRecord::new(client, since)));
        inner.last += 1;
        let number = inner.last;
        inner.publishers.insert(number, Arc::clone(&record));
        (number, record)
    }

    pub(in crate::hub) fn leave(&self, number: u64) {
        let mut inner = self.inner();
        if let Some(record) = inner.publishers.remove(&number) {
            inner.past.add_publisher(&record);
        }
    }

    /// Looks at how all get on, [`LOOK`](super::LOOK) after the last time. Channels end here. Returns what has changed.
    pub(in crate::hub) fn look(&self, now: Time, ends: BTreeMap<ChannelId, u64>) -> Vec<Change> {
        let mut inner = self.inner();
        let elapsed = inner.looked.map_or(Duration::ZERO, |looked| now.since(looked));
        inner.looked = Some(now);
        let mut changes: Vec<_> = inner
            .left
            .drain(..)
            .map(|(record, since)| {
                let slow = now.since(since);
                Change::Left(record, slow)
            })
            .collect();
        let end_of = |ends: Option<&BTreeMap<ChannelId, u64>>, channel| {
            ends.and_then(|ends| ends.get(&channel)).copied().unwrap_or(0)
        };
        // One that is slow has caught up once it has looked at what arrived before the last look.
        let (oldest, newest) =
            (inner.ends.front().filter(|_| inner.ends.len() >= LATE_LOOKS), inner.ends.back());
        let mut delivered = BTreeMap::<_, u64>::new();
        for record in inner.subscribers.values() {
            record.rate.look(record.delivered(), elapsed);
            for place in &record.places {
                *delivered.entry(place.channel).or_default() += place.delivered.value();
            }
            match record.slow_since() {
                None if record.is_late(|channel| end_of(oldest, channel)) => {
                    record.set_slow(Some(now));
                    changes.push(Change::Slow(Arc::clone(record)));
                }
                Some(since) if !record.is_late(|channel| end_of(newest, channel)) => {
                    record.set_slow(None);
                    changes.push(Change::KeepsUp(Arc::clone(record), now.since(since)));
                }
                _ => {}
            }
        }
        inner.publishers.values().for_each(|record| record.rate.look(record.accepted(), elapsed));
        for (channel, end) in &ends {
            let rates = inner.channels.entry(*channel).or_default();
            rates.arrived.look(*end, elapsed);
            rates.delivered.look(rates.past + delivered.get(channel).copied().unwrap_or(0), elapsed);
        }
        inner.ends.push_back(ends);
        if inner.ends.len() > LATE_LOOKS {
            inner.ends.pop_front();
        }
        changes
    }

    /// Returns the sums over all.
    pub fn sums(&self) -> Sums {
        let inner = self.inner();
        let mut sums = inner.past;
        inner.subscribers.values().for_each(|record| sums.add_subscriber(record));
        inner.publishers.values().for_each(|record| sums.add_publisher(record));
        let slow = inner.subscribers.values().filter(|record| record.slow_since().is_some());
        sums.slow = slow.count() as u64;
        (sums.subscriptions, sums.publishers) =
            (inner.subscribers.len() as u64, inner.publishers.len() as u64);
        sums
    }

    /// Returns the subscriptions that are attached.
    pub fn subscribers(&self) -> Vec<Arc<SubscriberRecord>> {
        self.inner().subscribers.values().cloned().collect()
    }

    /// Returns the clients that publish.
    pub fn publishers(&self) -> Vec<Arc<PublisherRecord>> {
        self.inner().publishers.values().cloned().collect()
    }

    /// Returns the figures of each channel.
    pub fn flows(&self) -> BTreeMap<ChannelId, Flow> {
        let inner = self.inner();
        let mut flows: BTreeMap<_, _> =
            inner.channels.iter().map(|(id, rates)| (*id, rates.flow())).collect();
        for place in inner.subscribers.values().flat_map(|record| &record.places) {
            flows.entry(place.channel).or_default().delivered += place.delivered.value();
        }
        flows
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelRates {
    fn flow(&self) -> Flow {
        Flow {
            arrived_per_second: self.arrived.per_second(),
            delivered: self.past,
            delivered_per_second: self.delivered.per_second(),
        }
    }
}
