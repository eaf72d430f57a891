//! Makes the report of a broker.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use whimbrel_pubsub::message::ChannelId;
use whimbrel_service::Metrics;

use super::broker::BrokerReport;
use super::channel::{ChannelReport, PartitionReport};
use super::limits::MOST_ROWS;
use super::metrics::BrokerMetrics;
use super::publishers::{PublisherReport, PublisherReports};
use super::subscribers::{SubscriberReport, SubscriberReports, SubscriberSums};
use crate::Time;
use crate::backbone::{Backbone, NatsReport};
use crate::gateway::mqtt::{BridgeReport, BridgeReports};
use crate::hub::{Change, Flow, Hub, LOOK, PublisherRecord, RoomReport, SubscriberRecord};

/// The number of missed checks after which the broker is not healthy.
const MISSED: u32 = 10;

/// Makes reports of a broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hub: Arc<Hub>,
    backbone: OnceLock<Backbone>,
    bridges: OnceLock<BridgeReports>,
    /// When the clients were last looked at: nanoseconds of the hub's clock.
    looked: AtomicU64,
}

impl Reporter {
    /// Reports on a broker that is linked with no other.
    pub fn new(hub: Arc<Hub>) -> Self {
        let looked = AtomicU64::new(nanos(hub.clock().time()));
        Self(Arc::new(Inner { hub, backbone: OnceLock::new(), bridges: OnceLock::new(), looked }))
    }

    /// Reports on the links of this backbone from now on. Only the first call counts.
    pub fn join(&self, backbone: Backbone) {
        drop(self.0.backbone.set(backbone));
    }

    /// Reports on these bridges from now on. Only the first call counts.
    pub fn bridge(&self, bridges: BridgeReports) {
        drop(self.0.bridges.set(bridges));
    }

    /// Returns a report on each bridge.
    pub fn bridges(&self) -> Vec<BridgeReport> {
        self.0.bridges.get().map(BridgeReports::all).unwrap_or_default()
    }

    /// Returns a report on the connection with NATS, if that is the backbone.
    pub fn nats(&self) -> Option<NatsReport> {
        match self.0.backbone.get() {
            Some(Backbone::Nats(nats)) => Some(nats.connection()),
            _ => None,
        }
    }

    /// Checks the progress of clients and links. Call it every [`LOOK`]. Returns what has changed.
    pub fn look(&self) -> Vec<Change> {
        let now = self.now();
        let looked = Duration::from_nanos(self.0.looked.swap(nanos(now), Ordering::Relaxed));
        if let Some(backbone) = self.0.backbone.get() {
            backbone.look(now.since(Time::at(looked)));
        }
        self.0.hub.look()
    }

    /// Returns why the broker does not work, if it does not: [`Reporter::look`] is not called any more.
    ///
    /// # Errors
    /// It was not called for ten seconds.
    pub fn health(&self) -> Result<(), String> {
        let silent = self.now().since(Time::at(Duration::from_nanos(self.0.looked.load(Ordering::Relaxed))));
        if silent > LOOK * MISSED {
            return Err(format!("the broker has not looked after its clients for {} s", silent.as_secs()));
        }
        Ok(())
    }

    /// Registers the broker's metrics.
    pub fn register(&self, metrics: &Metrics) {
        let collector = Box::new(BrokerMetrics(self.clone()));
        metrics.with_registry(|registry| {
            registry.sub_registry_with_prefix("whimbrel_broker").register_collector(collector);
        });
    }

    /// Returns the state of the broker now.
    pub fn report(&self) -> BrokerReport {
        let hub = self.hub();
        let name = hub.name();
        let rooms = hub.report();
        let ends: BTreeMap<_, _> = rooms.iter().map(|room| (room.id, room.arrived)).collect();
        let now = self.now();
        let report = self.without_clients(&rooms);
        BrokerReport {
            name: name.name.clone(),
            cluster: name.cluster.to_string(),
            subscriptions: hub.subscriptions() as u64,
            subscribers: subscribers(hub.register().subscribers(), &ends, now),
            publishers: publishers(&hub.register().publishers(), now),
            ..report
        }
    }

    /// Returns the state of channels and links.
    pub(super) fn without_clients(&self, rooms: &[RoomReport]) -> BrokerReport {
        let flows = self.hub().register().flows();
        let flow_of = |room: &RoomReport| flows.get(&room.id).copied().unwrap_or_default();
        let channels = rooms.iter().map(|room| channel(room, flow_of(room))).collect();
        let backbone = self.0.backbone.get();
        let brokers = backbone.map(Backbone::report).unwrap_or_default();
        let linked = backbone.map_or(0, Backbone::linked) as u64;
        BrokerReport { channels, brokers, linked, ..BrokerReport::default() }
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    fn now(&self) -> Time {
        self.0.hub.clock().time()
    }
}

fn nanos(time: Time) -> u64 {
    u64::try_from(time.since(Time::ZERO).as_nanos()).unwrap_or(u64::MAX)
}

fn channel(room: &RoomReport, flow: Flow) -> ChannelReport {
    let partitions = room.partitions.iter().zip(&room.oldest).map(|(figures, oldest)| PartitionReport {
        messages: figures.messages,
        bytes: figures.bytes,
        room: figures.room,
        overwritten: figures.overwritten,
        oldest_s: oldest.map(|oldest| oldest.as_secs_f64()),
    });
    ChannelReport {
        name: room.name.clone(),
        arrived: room.arrived,
        arrived_per_s: flow.arrived_per_second,
        delivered: flow.delivered,
        delivered_per_s: flow.delivered_per_second,
        retained: room.retained as u64,
        missing: room.missing,
        runs_given_up: room.runs_given_up,
        partitions: partitions.collect(),
    }
}

/// Returns the worst, and the sums over the others.
fn subscribers(
    all: Vec<Arc<SubscriberRecord>>,
    ends: &BTreeMap<ChannelId, u64>,
    now: Time,
) -> SubscriberReports {
    let end = |channel| ends.get(&channel).copied().unwrap_or(0);
    let mut all: Vec<_> = all
        .into_iter()
        .map(|record| {
            let (is_slow, lag, lost) = (record.slow_since().is_some(), record.lag(end), record.lost());
            ((is_slow, lag, lost), record)
        })
        .collect();
    let worst = |((is_slow, lag, lost), _): &((bool, u64, u64), Arc<SubscriberRecord>)| {
        Reverse((*is_slow, *lag, *lost))
    };
    let rest = if all.len() > MOST_ROWS {
        // Only the rows have to be in order.
        all.select_nth_unstable_by_key(MOST_ROWS, worst);
        all.split_off(MOST_ROWS)
    } else {
        Vec::new()
    };
    all.sort_by_key(worst);
    let slow = all.iter().chain(&rest).filter(|((is_slow, ..), _)| *is_slow).count() as u64;
    let mut sums = SubscriberSums::default();
    for ((_, lag, lost), record) in &rest {
        sums.number += 1;
        sums.lag += lag;
        sums.lost = sums.lost.saturating_add(*lost);
        sums.delivered += record.delivered();
        sums.recovered += record.recovered();
        sums.superseded += record.superseded();
    }
    let list = all.iter().map(|((_, lag, _), record)| subscriber(record, *lag, now)).collect();
    SubscriberReports { slow, list, rest: sums }
}

/// Returns the report on one subscription.
fn subscriber(record: &SubscriberRecord, lag: u64, now: Time) -> SubscriberReport {
    let slow_since = record.slow_since();
    SubscriberReport {
        client: record.client().name.clone(),
        address: record.client().address,
        filter: record.filter().to_owned(),
        selector: record.selector().map(str::to_owned),
        kind: record.kind().name().to_owned(),
        since_s: record.age(now).as_secs_f64(),
        slow: slow_since.is_some(),
        slow_s: slow_since.map(|since| now.since(since).as_secs_f64()),
        recovering: record.is_recovering(),
        lag,
        delivered: record.delivered(),
        delivered_per_s: record.per_second(),
        recovered: record.recovered(),
        lost: record.lost(),
        superseded: record.superseded(),
    }
}

/// Returns those of whom most was refused and who publish most, and the sums over the others.
fn publishers(all: &[Arc<PublisherRecord>], now: Time) -> PublisherReports {
    let report = |record: &Arc<PublisherRecord>| PublisherReport {
        client: record.client().name.clone(),
        address: record.client().address,
        since_s: record.age(now).as_secs_f64(),
        accepted: record.accepted(),
        accepted_per_s: record.per_second(),
        refused: record.refused(),
    };
    let mut places: Vec<_> =
        all.iter().map(|record| (record.refused(), record.per_second(), record.accepted(), record)).collect();
    places.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2)));
    let rest = places.split_off(places.len().min(MOST_ROWS));
    let mut reports = PublisherReports { number: all.len() as u64, ..PublisherReports::default() };
    for (refused, _, accepted, _) in rest {
        reports.rest.number += 1;
        reports.rest.accepted += accepted;
        reports.rest.refused += refused;
    }
    reports.list = places.into_iter().map(|(.., record)| report(record)).collect();
    reports
}
