//! Groups that go through a broker: each datagram is published once, and every proxy that subscribes to its group gets it.
//!
//! A topic has the group, `multicast/239.1.2.3/5000`, and two properties say where a datagram comes from: `source`, an address with its port,
//! and `proxy`, the mark of the proxy that heard it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use whimbrel_pubsub::client::{
    Acknowledgement, Client, Durability, Event, Publish, Subscribing, Subscription,
};
use whimbrel_pubsub::frame::Slow;
use whimbrel_pubsub::message::Message;
use whimbrel_pubsub::property::{Lookup, Properties, Value};

use super::running::Multicast;
use super::settings::BrokerSettings;
use crate::allowance::Allowance;
use crate::protocol::ProxyInstance;

/// The time after which nobody wants a datagram any more. It is shorter than proxies remember what they have heard and sent, so that nothing
/// goes round.
const LIFETIME: Duration = Duration::from_secs(1);
/// The most datagrams that wait for the broker. Further ones are lost.
const MOST_WAITING: usize = 256;
/// The datagrams of each group that are sent on in a second, whoever published them. Further ones are lost.
const SENT_ON_PER_SECOND: u32 = 1_000;
/// A proxy that lags by so many messages misses the oldest.
const MOST_BEHIND: u64 = 4_096;

/// The end where datagrams are put that go to the broker.
#[derive(Debug)]
pub(super) struct Dissemination {
    topic: String,
    waiting: mpsc::Sender<Publish>,
}

impl Dissemination {
    /// Has groups go through the brokers of `client`. Returns what does so for ever. `tell` hears what goes wrong.
    pub(super) fn start<T: Fn(String) + Clone + Send + Sync + 'static>(
        settings: &BrokerSettings,
        groups: &[SocketAddr],
        multicast: Arc<Multicast>,
        client: Client,
        tell: T,
    ) -> (Self, impl Future<Output = ()> + Send + use<T>) {
        let (waiting, published) = mpsc::channel(MOST_WAITING);
        let topic = settings.topic.clone();
        let wanted: Vec<_> = settings.send_on(groups).to_vec();
        let this = Self { topic: topic.clone(), waiting };
        let running = async move {
            let mut tasks = JoinSet::new();
            for group in wanted {
                // The true time of a datagram is now: nothing is recovered.
                let mut subscribing = Subscribing::new(topic_of(&topic, group));
                subscribing.durability = Durability::Nondurable;
                subscribing.slow = Slow::DropOldest(MOST_BEHIND);
                let subscription = client.subscribe(subscribing);
                tasks.spawn(send_on(Arc::clone(&multicast), group, subscription, tell.clone()));
            }
            let (answers, answered) = mpsc::channel(MOST_WAITING);
            tasks.spawn(publish(client, published, answers));
            tasks.spawn(tell_refusals(answered, tell));
            while tasks.join_next().await.is_some() {}
        };
        (this, running)
    }

    /// Has a datagram published. It is lost if too many wait.
    pub(super) fn heard(
        &self,
        instance: ProxyInstance,
        source: SocketAddr,
        group: SocketAddr,
        payload: &[u8],
    ) {
        let Ok(waits) = self.waiting.try_reserve() else { return };
        let (source, proxy) = (source.to_string(), shown(instance));
        let properties = Properties::new([("source", Value::Text(&source)), ("proxy", Value::Text(&proxy))]);
        let Ok(properties) = properties else { return };
        let mut publish = Publish::new(topic_of(&self.topic, group), Bytes::copy_from_slice(payload));
        (publish.properties, publish.lifetime) = (properties, Some(LIFETIME));
        waits.send(publish);
    }
}

async fn publish(
    client: Client,
    mut waiting: mpsc::Receiver<Publish>,
    answers: mpsc::Sender<Result<Acknowledgement, String>>,
) {
    while let Some(publish) = waiting.recv().await {
        let answer = client.publish(publish).await.map_err(|error| error.to_string());
        if answers.send(answer).await.is_err() {
            return;
        }
    }
}

/// Tells why datagrams are not published, once for each reason in a row.
async fn tell_refusals(
    mut answers: mpsc::Receiver<Result<Acknowledgement, String>>,
    tell: impl Fn(String) + Send,
) {
    let mut last = String::new();
    while let Some(answer) = answers.recv().await {
        let outcome = match answer {
            Ok(acknowledgement) => acknowledgement.acknowledged().await.map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        let why = outcome.err().unwrap_or_default();
        if why != last && !why.is_empty() {
            tell(format!("groups are not published: {why}"));
        }
        last = why;
    }
}

async fn send_on(
    multicast: Arc<Multicast>,
    group: SocketAddr,
    mut subscription: Subscription,
    tell: impl Fn(String) + Send,
) {
    let mut allowance = Allowance::new(SENT_ON_PER_SECOND);
    while let Some(event) = subscription.recv().await {
        match event {
            Event::Message(delivery) => {
                let message = &delivery.message;
                if let Some((instance, source)) = origin(message)
                    && !multicast.is(instance)
                    && source.is_ipv4() == group.is_ipv4()
                    && allowance.take(std::time::Instant::now())
                {
                    multicast.send_on(instance, source, group, &message.payload());
                }
            }
            Event::Refused(why) => return tell(format!("{group} is not sent on: {why}")),
            Event::Failed(why) => return tell(format!("{group} is not sent on: {why}")),
            _ => {}
        }
    }
}

fn topic_of(prefix: &str, group: SocketAddr) -> String {
    format!("{prefix}/{}/{}", group.ip(), group.port())
}

fn shown(ProxyInstance(bytes): ProxyInstance) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the proxy that heard a datagram, and its source. `None`: it is no datagram of a proxy's.
fn origin(message: &Message) -> Option<(ProxyInstance, SocketAddr)> {
    let text = |name| match message.property(name)? {
        Value::Text(text) => Some(text.to_owned()),
        _ => None,
    };
    let (proxy, source) = (text("proxy")?, text("source")?);
    let mut instance = [0; 16];
    if proxy.len() != 2 * instance.len() || !proxy.is_ascii() {
        return None;
    }
    for (at, byte) in instance.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&proxy[2 * at..2 * at + 2], 16).ok()?;
    }
    let source: SocketAddr = source.parse().ok()?;
    let is_host = |ip: IpAddr| !ip.is_multicast() && !ip.is_unspecified();
    is_host(source.ip()).then_some((ProxyInstance(instance), source))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use whimbrel_pubsub::message::Draft;

    use super::*;

    fn message(pairs: &[(&str, &str)]) -> Message {
        let pairs = pairs.iter().map(|(name, value)| (*name, Value::Text(value)));
        let properties = Properties::new(pairs).unwrap();
        Draft { topic: "multicast/239.1.2.3/5000", properties: properties.as_bytes(), ..Draft::default() }
            .finish()
            .unwrap()
    }

    #[test]
    fn a_message_says_who_heard_the_datagram_from_whom() {
        let instance = ProxyInstance(std::array::from_fn(|at| at as u8 * 16));
        let read = |proxy: &str, source: &str| origin(&message(&[("proxy", proxy), ("source", source)]));
        let source = "10.1.0.2:5000".parse().unwrap();
        assert_eq!(read(&shown(instance), "10.1.0.2:5000"), Some((instance, source)));
        for (proxy, source) in [
            ("", "10.1.0.2:5000"),
            ("00", "10.1.0.2:5000"),
            ("0g0102030405060708090a0b0c0d0e0f", "10.1.0.2:5000"),
            ("éé0102030405060708090a0b0c0d0e", "10.1.0.2:5000"),
            (&shown(instance), "10.1.0.2"),
            (&shown(instance), "239.1.2.3:5000"),
            (&shown(instance), "0.0.0.0:5000"),
        ] {
            assert_eq!(read(proxy, source), None, "{proxy} {source}");
        }
        assert_eq!(origin(&message(&[])), None);
    }

    #[test]
    fn a_group_has_a_topic() {
        assert_eq!(topic_of("multicast", "239.1.2.3:5000".parse().unwrap()), "multicast/239.1.2.3/5000");
        assert_eq!(topic_of("ships/sounds", "[ff15::7]:5000".parse().unwrap()), "ships/sounds/ff15::7/5000");
    }
}
