//! A subscription that is attached, as others see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use whimbrel_pubsub::coverage::{Fate, Told};
use whimbrel_pubsub::message::ChannelId;

use super::super::signal::Signal;
use super::client::{Client, shortened};
use super::count::{Count, Rate};
use crate::Time;
use crate::selection::Selection;

/// The kind of a subscription: who remembers what it has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// Nothing is recovered.
    Nondurable,
    /// The subscriber remembers what it has.
    SemiDurable,
    /// Brokers remember what it has.
    Durable,
}

impl SubscriptionKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nondurable => "nondurable",
            Self::SemiDurable => "semi-durable",
            Self::Durable => "durable",
        }
    }
}

/// A subscription's place in one channel.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) channel: ChannelId,
    /// The next arrival of what came since it attached.
    tail: Count,
    /// Arrivals that it has yet to look at of what was there before.
    behind: Count,
    pub(super) delivered: Count,
}

/// A subscription that is attached. Its own task counts, and whoever reports reads.
#[derive(Debug)]
pub struct SubscriberRecord {
    client: Arc<Client>,
    filter: String,
    selector: Option<String>,
    kind: SubscriptionKind,
    since: Time,
    pub(super) places: Vec<Place>,
    signal: Arc<Signal>,
    is_idle: AtomicBool,
    is_recovering: AtomicBool,
    recovered: Count,
    lost: Count,
    superseded: Count,
    pub(super) rate: Rate,
    slow: Mutex<Option<Time>>,
}

impl SubscriberRecord {
    pub(in super::super) fn new(
        client: Arc<Client>,
        kind: SubscriptionKind,
        selection: &Selection,
        signal: Arc<Signal>,
        channels: impl Iterator<Item = ChannelId>,
        since: Time,
    ) -> Self {
        let place = |channel| Place {
            channel,
            tail: Count::default(),
            behind: Count::default(),
            delivered: Count::default(),
        };
        Self {
            client,
            filter: shortened(selection.filter().as_str()),
            selector: selection.selector().map(|selector| shortened(&selector.to_string())),
            kind,
            since,
            places: channels.map(place).collect(),
            signal,
            is_idle: AtomicBool::new(false),
            is_recovering: AtomicBool::new(false),
            recovered: Count::default(),
            lost: Count::default(),
            superseded: Count::default(),
            rate: Rate::default(),
            slow: Mutex::default(),
        }
    }

    /// Something is told of the channel at this place.
    #[inline]
    pub(in super::super) fn on_told(&self, place: usize, told: &Told) {
        match told {
            Told::Delivery(delivery) => {
                if let Some(place) = self.places.get(place) {
                    place.delivered.add(1);
                }
                if delivery.recovered {
                    self.recovered.add(1);
                }
            }
            Told::Fate { fate: Fate::Gone, count, .. } => self.lost.add(count.number),
            Told::Fate { fate: Fate::Superseded, count, .. } => self.superseded.add(count.number),
            _ => {}
        }
    }

    /// So many messages of the channel at this place are delivered that were not published before it came.
    #[inline]
    pub(in super::super) fn on_passed(&self, place: usize, deliveries: u64) {
        if let Some(place) = self.places.get(place) {
            place.delivered.add(deliveries);
        }
    }

    /// It has read up to these places: of each channel the next arrival, and what is left of those before it came.
    pub(in super::super) fn on_read(&self, places: impl Iterator<Item = (u64, u64)>, is_idle: bool) {
        let mut is_recovering = false;
        for (place, (tail, behind)) in self.places.iter().zip(places) {
            place.tail.set(tail);
            place.behind.set(behind);
            is_recovering |= behind > 0;
        }
        self.is_recovering.store(is_recovering, Ordering::Relaxed);
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Whether it has looked at everything that it may want.
    fn has_all(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed) && !self.signal.is_ready()
    }

    /// Returns the number of arrivals that it has yet to look at, if channels end there. Some may not match.
    pub fn lag(&self, end: impl Fn(ChannelId) -> u64) -> u64 {
        if self.has_all() {
            return 0;
        }
        let of = |place: &Place| place.behind.value() + end(place.channel).saturating_sub(place.tail.value());
        self.places.iter().map(of).sum()
    }

    /// Whether it has yet to look at an arrival before this end. While it recovers, that is expected.
    pub(super) fn is_late(&self, end: impl Fn(ChannelId) -> u64) -> bool {
        let is_before = |place: &Place| place.tail.value() < end(place.channel);
        !self.has_all() && !self.is_recovering() && self.places.iter().any(is_before)
    }

    /// Whether it still reads what was published before it came.
    pub fn is_recovering(&self) -> bool {
        self.is_recovering.load(Ordering::Relaxed)
    }

    /// Since when it is slow, if it is.
    pub fn slow_since(&self) -> Option<Time> {
        *self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_slow(&self, since: Option<Time>) {
        *self.slow.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its filter, or the beginning of a long one.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Its selector, or the beginning of a long one.
    pub fn selector(&self) -> Option<&str> {
        self.selector.as_deref()
    }

    /// Its kind.
    pub fn kind(&self) -> SubscriptionKind {
        self.kind
    }

    /// For how long it has been attached.
    pub fn age(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Messages that were delivered, those recovered among them.
    pub fn delivered(&self) -> u64 {
        self.places.iter().map(|place| place.delivered.value()).sum()
    }

    /// Deliveries a second.
    pub fn per_second(&self) -> f64 {
        self.rate.per_second()
    }

    /// Delivered messages that were published before it came.
    pub fn recovered(&self) -> u64 {
        self.recovered.value()
    }

    /// Messages that were gone before they could be delivered, at most.
    pub fn lost(&self) -> u64 {
        self.lost.value()
    }

    /// Messages that its own policy passed over.
    pub fn superseded(&self) -> u64 {
        self.superseded.value()
    }
}
