//! The report of a broker: who is slow, what comes first, and sums that never fall.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use whimbrel::{Config, Endpoint};
use whimbrel_broker::backbone::{Backbone, Nats, NatsAccess, NatsPlan};
use whimbrel_broker::gateway::mqtt::{BridgePlan, BridgeRule, BridgeVersion, Bridges};
use whimbrel_broker::hub::{
    Attach, Attachment, BrokerName, Change, ChannelRules, Client, Finding, Form, Hub, Progress, Publishing,
    SubscriptionKind,
};
use whimbrel_broker::matching::Limits;
use whimbrel_broker::report::{MOST_ROWS, Reporter};
use whimbrel_broker::selection::Selection;
use whimbrel_pubsub::coverage::{ClusterId, Told};
use whimbrel_pubsub::frame::{Recover, Slow, Start};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft};
use whimbrel_service::{Service, ServiceOptions};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hub whose only partition holds so many messages.
fn hub(messages: u64) -> Arc<Hub> {
    let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(2), name: "b1".to_owned() };
    let mut rules = ChannelRules::all_topics();
    rules.settings.partitions[0].size.messages = messages;
    Hub::new(name, vec![rules], Limits::default())
}

fn subscribe(hub: &Arc<Hub>, client: u64, filter: &str, start: Start) -> Attachment {
    let selection = Selection::new(filter.parse().unwrap(), None);
    let attach =
        Attach { selection, recover: Recover::First, slow: Slow::Wait, start, state: None, form: Form(0) };
    let mut attachment = hub.attach(client, attach).unwrap();
    let known = Client::new(&format!("client{client}"), Some("127.0.0.1:9".parse().unwrap()));
    attachment.introduce(&Arc::new(known), SubscriptionKind::SemiDurable);
    attachment
}

fn publish(hub: &Hub, topic: &str, messages: usize) {
    for _ in 0..messages {
        let message = Draft { topic, payload: b"x", ..Draft::default() }.finish().unwrap();
        hub.publish(message, &mut Finding::default()).unwrap();
    }
}

fn read(attachment: &mut Attachment) {
    while attachment.read(true, 1_000, &mut |_: ChannelId, _: Told| true) == Progress::More {}
}

/// Looks until three looks old is what was there before.
fn look(reporter: &Reporter) -> Vec<String> {
    let changes = (0..4).flat_map(|_| reporter.look());
    let name = |change: Change| match change {
        Change::Slow(record) => format!("slow {}", record.client().name),
        Change::KeepsUp(record, _) => format!("keeps up {}", record.client().name),
        Change::Left(record, _) => format!("left {}", record.client().name),
    };
    changes.map(name).collect()
}

#[test]
fn who_does_not_look_is_slow_until_it_does() {
    let hub = hub(1_000);
    let reporter = Reporter::new(Arc::clone(&hub));
    let mut all: Vec<_> = (0..3).map(|client| subscribe(&hub, client, "#", Start::Live)).collect();
    all.push(subscribe(&hub, 3, "other", Start::Live));
    all.iter_mut().for_each(read);
    // What does not match makes nobody late.
    let idle = all.pop();
    publish(&hub, "t", 10);
    read(&mut all[0]);
    assert_eq!(look(&reporter), ["slow client1", "slow client2"]);
    let report = reporter.report();
    assert_eq!((report.subscriptions, report.subscribers.slow, report.channels[0].delivered), (4, 2, 10));
    let rows: Vec<_> =
        report.subscribers.list.iter().map(|row| (row.client.as_str(), row.slow, row.lag)).collect();
    assert_eq!(rows[..2], [("client1", true, 10), ("client2", true, 10)]);
    assert!(rows[2..].iter().all(|(_, is_slow, _)| !is_slow) && rows.len() == 4, "{rows:?}");
    assert_eq!(report.subscribers.list[0].address, Some("127.0.0.1:9".parse().unwrap()));
    assert!(look(&reporter).is_empty(), "it is told once");
    // One catches up, the other leaves.
    read(&mut all[1]);
    assert_eq!(look(&reporter), ["keeps up client1"]);
    drop(all.pop());
    assert_eq!(look(&reporter), ["left client2"]);
    assert_eq!(reporter.report().subscribers.slow, 0);
    drop(idle);
}

#[test]
fn one_for_which_nothing_comes_and_one_that_recovers_are_not_slow() {
    let hub = hub(1_000);
    let reporter = Reporter::new(Arc::clone(&hub));
    let mut idle = subscribe(&hub, 1, "other", Start::Live);
    read(&mut idle);
    publish(&hub, "t", 20);
    let recovering = subscribe(&hub, 2, "#", Start::Held);
    assert!(look(&reporter).is_empty());
    let list = reporter.report().subscribers.list;
    assert_eq!((list[0].client.as_str(), list[0].lag, list[0].recovering), ("client2", 20, true));
    assert_eq!((list[1].client.as_str(), list[1].lag), ("client1", 0));
    drop(recovering);
}

#[test]
fn what_is_overwritten_is_lost_and_sums_outlive_those_who_left() {
    let hub = hub(8);
    let reporter = Reporter::new(Arc::clone(&hub));
    let mut late = subscribe(&hub, 1, "#", Start::Live);
    read(&mut late);
    publish(&hub, "t", 20);
    read(&mut late);
    let row = reporter.report().subscribers.list.remove(0);
    assert_eq!((row.delivered, row.lost, row.lag, row.recovered), (8, 12, 0, 0));
    let partition = &reporter.report().channels[0].partitions[0];
    assert_eq!((partition.messages, partition.room, partition.overwritten), (8, 8, 12));
    assert!(partition.oldest_s.is_some());
    let mut again = subscribe(&hub, 2, "#", Start::Held);
    read(&mut again);
    assert_eq!(hub.register().sums().recovered, 8);
    let before = hub.register().sums();
    drop((late, again));
    let after = hub.register().sums();
    assert_eq!(
        (after.delivered, after.lost, after.recovered),
        (before.delivered, before.lost, before.recovered)
    );
    assert_eq!((after.subscriptions, reporter.report().channels[0].delivered), (0, 16));
}

#[test]
fn rows_are_bounded_and_the_rest_is_summed() {
    let hub = hub(1_000);
    let reporter = Reporter::new(Arc::clone(&hub));
    let number = MOST_ROWS as u64 + 50;
    let mut all: Vec<_> = (0..number).map(|client| subscribe(&hub, client, "#", Start::Live)).collect();
    all.iter_mut().for_each(read);
    publish(&hub, "t", 3);
    all.iter_mut().skip(2).for_each(read);
    look(&reporter);
    let report = reporter.report().subscribers;
    assert_eq!((report.slow, report.list.len(), report.rest.number), (2, MOST_ROWS, 50));
    assert!(report.list[0].slow && report.list[1].slow && !report.list[2].slow);
    assert_eq!((report.rest.delivered, report.rest.lag), (150, 0));
    // Publishers, too: one that is refused comes first.
    let known = |name: &str| Arc::new(Client::new(name, None));
    let mut publishing: Vec<_> =
        (0..number).map(|at| Publishing::new(Arc::clone(&hub), known(&at.to_string()))).collect();
    publishing.iter_mut().for_each(|one| one.on_published(2, 0));
    publishing[77].on_published(0, 1);
    let mut silent = Publishing::new(Arc::clone(&hub), known("silent"));
    silent.on_published(0, 0);
    let report = reporter.report().publishers;
    assert_eq!((report.number, report.list.len(), report.rest.number), (number, MOST_ROWS, 50));
    assert_eq!(
        (report.list[0].client.as_str(), report.list[0].refused, report.rest.accepted),
        ("77", 1, 100)
    );
    drop(publishing);
    let sums = hub.register().sums();
    assert_eq!((sums.publishers, sums.accepted, sums.refused), (0, 2 * number, 1));
}

/// An endpoint, and a service whose metrics are read.
async fn service() -> (Endpoint, Service) {
    let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let service = Service::start(ServiceOptions::new("broker"), &endpoint, || serde_json::Value::Null);
    let service = service.await.unwrap();
    (endpoint, service)
}

/// A port of this host on which nobody listens.
fn nobodys_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until the metrics have all of these lines.
async fn until_metrics_have(service: &Service, lines: &[&str]) {
    let start = Instant::now();
    loop {
        let text = service.metrics().text();
        let missing = lines.iter().find(|line| !text.lines().any(|other| other == **line));
        let Some(missing) = missing else { return };
        assert!(start.elapsed() < PATIENCE, "{missing}: {text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn regression_bridges_have_metrics() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (_endpoint, service) = service().await;
        let hub = hub(1_000);
        let reporter = Reporter::new(Arc::clone(&hub));
        reporter.register(service.metrics());
        assert!(!service.metrics().text().contains("whimbrel_broker_bridge"), "there are none");
        let rule = BridgeRule {
            filter: "a/#".parse().unwrap(),
            strip: String::new(),
            prefix: String::new(),
            is_acknowledged: true,
        };
        let plan = BridgePlan {
            name: "factory".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: nobodys_port(),
            tls: None,
            user: None,
            password: None,
            client: "c".to_owned(),
            version: BridgeVersion::Newest,
            keep_alive: Duration::from_secs(15),
            session: Duration::from_secs(60),
            out: vec![rule],
            from: Vec::new(),
        };
        let mut bridges = Bridges::start(&hub, vec![plan], |_: &str| ()).unwrap();
        reporter.bridge(bridges.reports());
        publish(&hub, "a/b", 3);
        let lines = [
            "whimbrel_broker_bridge_connected{bridge=\"factory\"} 0.0",
            "whimbrel_broker_bridge_trouble{bridge=\"factory\"} 1.0",
            "whimbrel_broker_bridge_waiting{bridge=\"factory\"} 3.0",
            "whimbrel_broker_bridge_in_flight{bridge=\"factory\"} 0.0",
            "whimbrel_broker_bridge_connections_total{bridge=\"factory\"} 0",
            "whimbrel_broker_bridge_sent_bytes_total{bridge=\"factory\"} 0",
            "whimbrel_broker_bridge_lost_total{bridge=\"factory\"} 0",
        ];
        until_metrics_have(&service, &lines).await;
        assert_eq!(reporter.bridges()[0].waiting, 3);
        bridges.stop().await;
    });
}

#[test]
fn regression_the_connection_with_nats_has_metrics() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (endpoint, service) = service().await;
        let hub = hub(1_000);
        let reporter = Reporter::new(Arc::clone(&hub));
        reporter.register(service.metrics());
        let plan = NatsPlan {
            servers: vec![format!("nats://127.0.0.1:{}", nobodys_port()).parse().unwrap()],
            access: NatsAccess::Nothing,
            tls: None,
            forget_after: Duration::from_secs(60),
        };
        let nats = Nats::start(Arc::clone(&hub), endpoint.public_key(), &plan, |_: &str| ()).await.unwrap();
        reporter.join(Backbone::Nats(Arc::clone(&nats)));
        publish(&hub, "a/b", 3);
        let lines = [
            "whimbrel_broker_nats_connected 0.0",
            "whimbrel_broker_nats_trouble 1.0",
            "whimbrel_broker_nats_connections_total 0",
            "whimbrel_broker_nats_published_total 0",
            "whimbrel_broker_nats_received_total 0",
            "whimbrel_broker_nats_behind 3.0",
        ];
        until_metrics_have(&service, &lines).await;
        nats.stop().await;
    });
}

#[test]
fn metrics_have_labels_of_the_configuration_only() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (_endpoint, service) = service().await;
        let hub = hub(8);
        let reporter = Reporter::new(Arc::clone(&hub));
        reporter.register(service.metrics());
        let mut one = subscribe(&hub, 1, "secret/#", Start::Live);
        publish(&hub, "secret/t", 10);
        read(&mut one);
        let text = service.metrics().text();
        for line in [
            "whimbrel_broker_subscriptions 1.0",
            "whimbrel_broker_lost_total 2",
            "whimbrel_broker_delivered_total{channel=\"all\"} 8",
            "whimbrel_broker_overwritten_total{channel=\"all\",partition=\"0\"} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        assert!(!text.contains("client1") && !text.contains("secret"), "{text}");
        assert!(reporter.health().is_ok());
    });
}
