//! One session with another broker.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use whimbrel::Mocket;
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::super::frame::{DURABLE, Hello, INTRODUCES, Introduction, MeshFrame, VERSION};
use super::sending::{Line, Sources};
use super::{MISUSED, Mesh, receiving, sending};
use crate::hub::ChannelMap;

/// How long the other broker may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// The most answers that wait to be sent. A further question is passed over, and asked again later.
const MOST_ANSWERS: usize = 4;

/// Serves the link until its session ends. A broker that does what none should, or is none of ours, is told so.
pub(super) async fn run(mesh: &Arc<Mesh>, mocket: &Mocket) {
    if let Err(why) = try_run(mesh, mocket).await {
        let known = mesh.peer(mocket.peer_key()).and_then(|broker| mesh.traffic.get(&broker));
        if let Some(traffic) = known {
            traffic.on_trouble(&why);
        }
        mocket.close(MISUSED, &why).await;
    }
}

async fn try_run(mesh: &Arc<Mesh>, mocket: &Mocket) -> Result<(), String> {
    if mocket.established().await.is_err() {
        return Ok(());
    }
    let Some(broker) = mesh.peer(mocket.peer_key()) else {
        return Err("this broker is none of the configured peers".to_owned());
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
        return Err("it does not say hello".to_owned());
    };
    let Ok(first) = first else { return Ok(()) };
    let Some(MeshFrame::Hello(theirs)) = MeshFrame::parse(&first.payload) else {
        return Err("its first message is no hello of this version".to_owned());
    };
    check(&hello, &theirs, broker)?;
    let Some(traffic) = mesh.traffic.get(&broker) else { return Ok(()) };
    let knows_durable = theirs.version >= DURABLE;
    let number = mesh.links.insert(broker, mocket.clone(), knows_durable);
    traffic.begin(mesh.hub.clock().time());
    let durable = knows_durable.then(|| (mesh.hub.confirm_to(theirs.origin), mesh.hub.share_with(broker)));
    // Reading never waits for room to send: two brokers that answer each other would wait for good.
    let (answer, answers) = mpsc::channel(MOST_ANSWERS);
    let (introduce, introduced) = oneshot::channel();
    let mut meeting = Meeting { broker, ours, introduce: Some(introduce) };
    let introduction = if theirs.version < INTRODUCES {
        // It has the same channels.
        meeting.introduced(hello.channels);
        None
    } else {
        Some(mesh.introduction(&meeting.ours))
    };
    let line = Line { mesh, mocket, traffic, number: (broker, number) };
    let sources = Sources { introduction, introduced, durable, answers };
    let ended = tokio::select! {
        ended = receiving::run(mesh, mocket, traffic, theirs.origin, answer, meeting) => ended,
        () = sending::run(&line, sources) => Ok(()),
    };
    mesh.links.remove(broker, number);
    traffic.end();
    ended
}

/// Waits for what a broker says of itself.
pub(super) struct Meeting {
    broker: BrokerId,
    /// The description of our channels that it gets.
    ours: Vec<ChannelMap>,
    /// Where the channels go that both have. `None`: they went.
    introduce: Option<oneshot::Sender<Vec<ChannelId>>>,
}

impl Meeting {
    /// These are the channels that both have.
    fn introduced(&mut self, shared: Vec<ChannelId>) {
        if let Some(introduce) = self.introduce.take() {
            introduce.send(shared).ok();
        }
    }

    /// Whether a channel goes to the other broker.
    pub(super) fn has(&self, channel: ChannelId) -> bool {
        self.ours.iter().any(|ours| ours.id == channel)
    }

    /// The other broker introduces itself.
    pub(super) fn meet(&mut self, mesh: &Mesh, theirs: Introduction) -> Result<(), String> {
        if self.introduce.is_none() {
            return Err("it introduces itself a second time".to_owned());
        }
        let name = mesh.called(self.broker, &theirs.name);
        let shared = mesh.hub.meet(self.broker, name, &self.ours, theirs.channels)?;
        self.introduced(shared);
        Ok(())
    }
}

fn check(ours: &Hello, theirs: &Hello, broker: BrokerId) -> Result<(), String> {
    if theirs.version.abs_diff(ours.version) > 1 {
        return Err(format!("it speaks version {}, and we speak {}", theirs.version, ours.version));
    }
    if theirs.cluster != ours.cluster {
        return Err(format!(
            "it is of cluster {}, and we are of {}: give all brokers the same `cluster`",
            theirs.cluster, ours.cluster
        ));
    }
    if theirs.origin.broker != broker {
        return Err("it calls itself by another broker's id".to_owned());
    }
    if theirs.version < INTRODUCES && theirs.channels != ours.channels {
        return Err(
            "its channels differ from ours: give all brokers the same [[channel]] sections".to_owned()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use whimbrel::{Config, Endpoint, new_identity};
    use whimbrel_pubsub::coverage::{ClusterId, Range};
    use whimbrel_pubsub::message::{Draft, Hlc, Message, Origin, PartitionId, Stamp};

    use super::super::super::{PROTOCOL, Peer};
    use super::*;
    use crate::hub::{BrokerName, ChannelRules, Finding, Hub};
    use crate::ids::broker_id;

    /// Longer than anything takes on a slow machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn message(length: usize) -> Message {
        Draft { topic: "t", payload: &vec![0; length], ..Draft::default() }.finish().unwrap()
    }

    /// A broker with messages in its channel, and its neighbour, which said hello. The link ends with the task.
    struct Linked {
        hub: Arc<Hub>,
        channel: ChannelId,
        near: Origin,
        mocket: Mocket,
        task: tokio::task::JoinHandle<()>,
        _endpoints: [Endpoint; 2],
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
        let hub = Hub::new(name, vec![rules], crate::matching::Limits::default());
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
        let channels = if may_have { vec![channel] } else { Vec::new() };
        let hello = Hello { version: 1, cluster: ClusterId(1), origin, channels };
        mocket.send(MeshFrame::Hello(hello).encode()).await.unwrap();
        Linked { hub, channel, near: origin, mocket, task, _endpoints: [near, far] }
    }

    /// Two brokers that wait for each other's answers would both stop reading.
    #[tokio::test(flavor = "multi_thread")]
    async fn regression_a_broker_that_reads_no_answers_is_read_all_the_same() {
        let Linked { hub, channel, near, mocket, task, .. } = &linked(200, true).await;
        // Far more than all windows and queues hold is asked for, and nothing is read.
        let all = Range { first: 1, last: 200 };
        for _ in 0..200 {
            let request = MeshFrame::Request(*channel, hub.own().unwrap(), vec![all]);
            mocket.send(request.encode()).await.unwrap();
        }
        let published = Hlc::at(1_700_000_000_000);
        let stamp = Stamp { origin: *near, sequence: 1, partition: PartitionId(0), ordinal: 1, published };
        let messages = MeshFrame::Messages(*channel, vec![(stamp, message(1), Duration::ZERO)]);
        mocket.send(messages.encode()).await.unwrap();
        let arrives = async {
            while hub.report()[0].arrived < 201 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, arrives).await.expect("what the peer publishes is taken");
        task.abort();
    }

    /// `channels` in [[peer]] says what the peer may have, whatever it asks for.
    #[tokio::test(flavor = "multi_thread")]
    async fn regression_a_broker_gets_nothing_of_a_channel_that_does_not_go_to_it() {
        let Linked { hub, channel, mocket, task, .. } = &linked(1, false).await;
        let request = MeshFrame::Request(*channel, hub.own().unwrap(), vec![Range { first: 1, last: 1 }]);
        mocket.send(request.encode()).await.unwrap();
        let ends = async {
            while let Ok(message) = mocket.recv().await {
                let frame = MeshFrame::parse(&message.payload);
                assert!(!matches!(frame, Some(MeshFrame::Messages(..))), "{frame:?}");
            }
        };
        timeout(PATIENCE, ends).await.expect("the link is closed");
        task.abort();
    }
}
