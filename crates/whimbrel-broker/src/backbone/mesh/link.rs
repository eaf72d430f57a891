//! One session with another broker.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use whimbrel::{CloseReason, Mocket, PublicKey};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};

use super::super::frame::{Hello, Introduction, MeshFrame, VERSION};
use super::core::Mesh;
use super::sending::{Line, Met, Sources};
use super::{receiving, sending};
use crate::hub::ChannelMap;

/// How long the other broker may take to say hello, and then to introduce itself.
pub(super) const HELLO: Duration = Duration::from_secs(10);
/// The most answers that wait to be sent. A further question is passed over, and asked again later.
const MOST_ANSWERS: usize = 4;
/// Closing a link that speaks another version, or is of another cluster.
const MISUSED: u64 = 1;

/// Serves the link until its session ends. A broker that does what none should, or is none of ours, is told so.
pub(super) async fn run(mesh: &Arc<Mesh>, mocket: &Mocket) {
    let ended = try_run(mesh, mocket).await;
    let standing = mesh.peer(mocket.peer_key()).and_then(|broker| mesh.standing(broker));
    match (ended, standing) {
        (Err(why), standing) => {
            if let Some(standing) = standing {
                standing.on_trouble(&why);
            }
            mocket.close(MISUSED, &why).await;
        }
        (Ok(()), Some(standing)) if mocket.is_closed() => {
            if let Some(why) = ended_by_other(&mocket.closed().await) {
                standing.on_trouble(&why);
            }
        }
        _ => {}
    }
}

/// Says why a session ended, if this broker did not end it.
fn ended_by_other(reason: &CloseReason) -> Option<String> {
    match reason {
        CloseReason::Local => None,
        CloseReason::Peer(reason) | CloseReason::Aborted(_, reason) if reason.text.is_empty() => {
            Some("the other broker ended the link".to_owned())
        }
        CloseReason::Peer(reason) | CloseReason::Aborted(_, reason) => {
            Some(format!("the other broker ended the link, and said: {}", reason.text))
        }
        CloseReason::Revoked => Some(
            "the key of the other broker is no longer allowed: check its [[peer]] or [[client]]".to_owned(),
        ),
        other => Some(format!("the link ended: {other}")),
    }
}

/// The reason that a broker which is not configured here is given.
fn stranger(mesh: &Mesh, key: Option<PublicKey>) -> String {
    let key = key.map_or_else(|| "none".to_owned(), |key| key.to_string());
    let name = &mesh.hub.name().name;
    format!("the file of the broker {name} has no [[peer]] with your key, {key}: add one")
}

async fn try_run(mesh: &Arc<Mesh>, mocket: &Mocket) -> Result<(), String> {
    if mocket.established().await.is_err() {
        return Ok(());
    }
    let Some(broker) = mesh.peer(mocket.peer_key()) else {
        return Err(stranger(mesh, mocket.peer_key()));
    };
    let Some(own) = mesh.hub.own() else { return Err("this broker has no channel".to_owned()) };
    let ours = mesh.map_for(broker);
    let hello = Hello {
        version: VERSION,
        cluster: mesh.hub.name().cluster,
        origin: own,
        channels: ours.iter().map(|channel| channel.id).collect(),
    };
    if mocket.send(MeshFrame::Hello(hello.clone()).encode()).await.is_err() {
        return Ok(());
    }
    let Ok(first) = timeout(HELLO, mocket.recv()).await else {
        return Err("it did not say hello".to_owned());
    };
    let Ok(first) = first else { return Ok(()) };
    let Some(MeshFrame::Hello(theirs)) = MeshFrame::parse(&first.payload) else {
        return Err("its first message is not a hello of this version".to_owned());
    };
    check(&hello, &theirs, broker)?;
    let Some(traffic) = mesh.traffic.get(&broker) else { return Ok(()) };
    let number = mesh.links.insert(broker, mocket.clone());
    traffic.standing.begin(mesh.hub.clock().time());
    // Reading never waits for room to send: two brokers that answer each other would wait for good.
    let (answer, answers) = mpsc::channel(MOST_ANSWERS);
    let (introduce, introduced) = oneshot::channel();
    let introduction = mesh.introduction(&ours, theirs.version);
    let meeting = Meeting { origin: theirs.origin, ours, introduce: Some(introduce) };
    let line = Line { mesh, mocket, traffic, number: (broker, number), version: theirs.version };
    let sources = Sources { introduction: Some(introduction), introduced, answers };
    let ended = tokio::select! {
        ended = receiving::run(mesh, mocket, traffic, theirs.origin, answer, meeting) => ended,
        () = sending::run(&line, sources) => Ok(()),
    };
    mesh.links.remove(broker, number);
    traffic.standing.end(mesh.hub.clock().time());
    ended
}

/// Waits for what a broker says of itself.
pub(super) struct Meeting {
    /// The other broker's run.
    origin: Origin,
    /// The description of our channels that it gets.
    ours: Vec<ChannelMap>,
    /// Where what comes of it is waited for. `None`: it went there.
    introduce: Option<oneshot::Sender<Met>>,
}

impl Meeting {
    /// Whether the other broker has introduced itself.
    pub(super) fn is_over(&self) -> bool {
        self.introduce.is_none()
    }

    /// Whether a channel goes to the other broker.
    pub(super) fn has(&self, channel: ChannelId) -> bool {
        self.ours.iter().any(|ours| ours.id == channel)
    }

    /// The other broker introduces itself.
    pub(super) fn meet(&mut self, mesh: &Mesh, theirs: Introduction) -> Result<(), String> {
        let introduce = self.introduce.take().ok_or("it introduced itself twice")?;
        let broker = self.origin.broker;
        let name = mesh.called(broker, &theirs.name);
        let shared = mesh.hub.meet(broker, name, &self.ours, (theirs.channels, theirs.kept))?;
        // What it says from here on finds what it is said to.
        let confirming = mesh.hub.confirm_to(self.origin, &shared);
        let sharing = mesh.hub.share_with(broker, &shared);
        introduce.send(Met { shared, confirming, sharing }).ok();
        Ok(())
    }
}

fn check(ours: &Hello, theirs: &Hello, broker: BrokerId) -> Result<(), String> {
    if theirs.version.abs_diff(ours.version) > 1 {
        return Err(format!(
            "it speaks frame version {}, and we speak {}: neighbouring versions work together, so update the older broker",
            theirs.version, ours.version
        ));
    }
    if theirs.cluster != ours.cluster {
        return Err(format!(
            "it belongs to cluster {}, and we belong to {}: give all brokers the same `cluster`",
            theirs.cluster, ours.cluster
        ));
    }
    if theirs.origin.broker != broker {
        return Err("it uses another broker's id".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use whimbrel::{Config, Endpoint, new_identity};
    use whimbrel_pubsub::coverage::{ClusterId, Range};
    use whimbrel_pubsub::message::{Draft, Hlc, Message, PartitionId, Stamp};

    use super::super::super::{PROTOCOL, Peer};
    use super::*;
    use crate::durable::Life;
    use crate::hub::{BrokerName, ChannelRules, Finding, Hub, Word};
    use crate::ids::broker_id;
    use crate::store::{Fact, SubscriptionName};

    /// Longer than anything takes on a slow machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn message(length: usize) -> Message {
        Draft { topic: "t", payload: &vec![0; length], ..Draft::default() }.finish().unwrap()
    }

    /// A broker with messages in its channel, and its neighbour, which said hello. The link ends with the task.
    struct Linked {
        hub: Arc<Hub>,
        rules: ChannelRules,
        near: Origin,
        mocket: Mocket,
        task: tokio::task::JoinHandle<()>,
        endpoints: [Endpoint; 2],
    }

    impl Linked {
        fn channel(&self) -> ChannelId {
            self.rules.settings.id
        }

        /// The neighbour introduces itself.
        async fn introduce(&self) {
            let (key, name) = (self.endpoints[0].public_key(), "near".to_owned());
            let (channels, kept) = (vec![ChannelMap::of(&self.rules)], None);
            let introduction = Introduction { key, name, channels, kept };
            self.send(MeshFrame::Introduction(introduction)).await;
        }

        async fn send(&self, frame: MeshFrame) {
            self.mocket.send(frame.encode()).await.unwrap();
        }

        /// The neighbour's first message.
        fn published(&self) -> MeshFrame {
            let published = Hlc::at(1_700_000_000_000);
            let origin = self.near;
            let stamp = Stamp { origin, sequence: 1, partition: PartitionId(0), ordinal: 1, published };
            MeshFrame::Messages(self.channel(), vec![(stamp, message(1), Duration::ZERO)])
        }

        fn arrived(&self) -> u64 {
            self.hub.report()[0].arrived
        }
    }

    /// Links a neighbour that may have the channel, or may not.
    async fn linked(messages: usize, may_have: bool) -> Linked {
        let config = Config::default().protocol(PROTOCOL.into());
        let near = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
        let far = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
        let broker = broker_id(&near.public_key());
        let mut rules = ChannelRules::all_topics();
        rules.settings.peers = vec![broker];
        let channel = rules.settings.id;
        let name =
            BrokerName { cluster: ClusterId(1), broker: broker_id(&far.public_key()), name: "far".into() };
        let hub = Hub::new(name, vec![rules.clone()], crate::matching::Limits::default());
        for _ in 0..messages {
            hub.publish(message(10_000), &mut Finding::default()).unwrap();
        }
        let channels = (!may_have).then(Vec::new);
        let peer = Peer { key: near.public_key(), url: None, channels };
        let mesh = Mesh::start(Arc::clone(&hub), &far, &[peer]);
        let url = format!("whimbrel://{}@{}", far.public_key(), far.local_addr().unwrap());
        let mocket = near.connect(&url).await.unwrap();
        let task = tokio::spawn(mesh.accepted(far.accept().await.unwrap()));
        let origin = Origin { broker, epoch: 7 };
        let hello = Hello { version: 2, cluster: ClusterId(1), origin, channels: vec![channel] };
        mocket.send(MeshFrame::Hello(hello).encode()).await.unwrap();
        Linked { hub, rules, near: origin, mocket, task, endpoints: [near, far] }
    }

    /// Two brokers that wait for each other's answers would both stop reading.
    #[tokio::test(flavor = "multi_thread")]
    async fn regression_a_broker_that_reads_no_answers_is_read_all_the_same() {
        let linked = linked(200, true).await;
        linked.introduce().await;
        // Far more than all windows and queues hold is asked for, and nothing is read.
        let all = Range { first: 1, last: 200 };
        for _ in 0..200 {
            let own = linked.hub.own().unwrap();
            linked.send(MeshFrame::Request(linked.channel(), own, vec![all])).await;
        }
        linked.send(linked.published()).await;
        let arrives = async {
            while linked.arrived() < 201 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, arrives).await.expect("what the peer publishes is taken");
        linked.task.abort();
    }

    /// `channels` in [[peer]] says what the peer may have, whatever it asks for.
    #[tokio::test(flavor = "multi_thread")]
    async fn regression_a_broker_gets_nothing_of_a_channel_that_does_not_go_to_it() {
        let linked = linked(1, false).await;
        linked.introduce().await;
        let own = linked.hub.own().unwrap();
        let one = vec![Range { first: 1, last: 1 }];
        linked.send(MeshFrame::Request(linked.channel(), own, one)).await;
        let ends = async {
            while let Ok(message) = linked.mocket.recv().await {
                let frame = MeshFrame::parse(&message.payload);
                assert!(!matches!(frame, Some(MeshFrame::Messages(..))), "{frame:?}");
            }
        };
        timeout(PATIENCE, ends).await.expect("the link is closed");
        linked.task.abort();
    }

    /// Before it has introduced itself, nobody knows which channels it has.
    #[tokio::test(flavor = "multi_thread")]
    async fn regression_nothing_is_taken_before_the_introduction() {
        let linked = linked(0, true).await;
        let name = SubscriptionName::new("0a/board").unwrap();
        let fact = Fact::Ended { name, life: Life { born: 1, generation: 1 }, left: PATIENCE };
        for frame in [linked.published(), MeshFrame::Word(Word::ToldAll), MeshFrame::Word(Word::Fact(fact))] {
            linked.send(frame).await;
        }
        linked.introduce().await;
        // Frames are taken in order: once an answer comes, those before are done with.
        let own = linked.hub.own().unwrap();
        let one = vec![Range { first: 1, last: 1 }];
        linked.send(MeshFrame::Request(linked.channel(), own, one)).await;
        let answered = async {
            loop {
                let message = linked.mocket.recv().await.expect("the link goes on");
                if matches!(MeshFrame::parse(&message.payload), Some(MeshFrame::Denials(..))) {
                    break;
                }
            }
        };
        timeout(PATIENCE, answered).await.expect("it is answered after its introduction");
        assert_eq!(linked.arrived(), 0, "the message was passed over, and is asked for");
        linked.task.abort();
    }
}
