//! Native subscribers, each with an endpoint of its own.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use tokio::task::JoinSet;
use whimbrel::{Config, Endpoint, MessageStream, Mocket, StreamOptions};
use whimbrel_pubsub::client::endpoint_config;
use whimbrel_pubsub::coverage::SubscriptionId;
use whimbrel_pubsub::frame::{
    BrokerFrame, ClientFrame, Hello, Kind, Recover, Slow, Start, Subscribe, SubscriberFrame,
    SubscriptionFrame, Welcome,
};
use whimbrel_pubsub::message::Message;

use crate::audience::{Audience, Tally};
use crate::stamp;
use crate::walk::walk;

pub(crate) const TOPIC: &str = "fan/out";

/// How subscriptions are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) semi_durable: bool,
}

/// Subscribes. Returns what has to live as long as the subscriptions.
pub(crate) async fn subscribe(
    url: &str,
    audience: &Audience,
    slow: usize,
    wanted: Wanted,
) -> anyhow::Result<Box<dyn Send>> {
    let mut reading = JoinSet::new();
    for (number, tally) in audience.tallies().enumerate() {
        let (endpoint, mocket, stream) = attach(url, number, wanted).await?;
        reading.spawn(read(endpoint, mocket, stream, tally));
    }
    let mut quiet = Vec::new();
    for number in 0..slow {
        quiet.push(attach(url, audience.len() + number, wanted).await?);
    }
    Ok(Box::new((reading, quiet)))
}

/// Connects as a client, and says hello.
pub(crate) async fn connect(url: &str) -> anyhow::Result<(Endpoint, Mocket, Welcome)> {
    let endpoint = Endpoint::bind(endpoint_config(Config::default()), "127.0.0.1:0").await?;
    let mocket = endpoint.connect(url).await?;
    mocket.send(ClientFrame::Hello(Hello::default()).encode()).await?;
    let BrokerFrame::Welcome(welcome) = BrokerFrame::parse(&mocket.recv().await?.payload)? else {
        bail!("the broker does not say welcome")
    };
    Ok((endpoint, mocket, welcome))
}

async fn attach(
    url: &str,
    number: usize,
    wanted: Wanted,
) -> anyhow::Result<(Endpoint, Mocket, MessageStream)> {
    let (endpoint, mocket, welcome) = connect(url).await?;
    let mut stream = mocket.open_messages(StreamOptions::default()).await?;
    let kind = if wanted.semi_durable {
        let id = SubscriptionId(1 + number as u128);
        Kind::SemiDurable { id, generation: 1, cluster: Some(welcome.cluster), start: Start::Live }
    } else {
        Kind::Nondurable
    };
    let (filter, selector, recover, slow) = (TOPIC.to_owned(), None, Recover::First, Slow::Wait);
    let subscribe = Subscribe { filter, selector, kind, recover, slow };
    stream.send(SubscriberFrame::Subscribe(subscribe).encode()).await?;
    match SubscriptionFrame::parse(&stream.recv().await?.payload)? {
        SubscriptionFrame::Subscribed(_) => Ok((endpoint, mocket, stream)),
        other => bail!("the broker does not take the subscription: {other:?}"),
    }
}

async fn read(
    _endpoint: Endpoint,
    _mocket: Mocket,
    mut stream: MessageStream,
    tally: Arc<Mutex<Tally>>,
) -> anyhow::Result<()> {
    loop {
        let mut next = Some(stream.recv().await.context("the broker ended a subscription")?);
        let now = stamp::now();
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(message) = next {
            // The load's messages end with their payload.
            let came = |message: &[u8]| {
                tally.came(&message[message.len().saturating_sub(stamp::LENGTH)..], now);
            };
            if walk(&message.payload, came).is_err() {
                bail!("the broker sent what is no frame")
            }
            next = stream.try_recv();
        }
    }
}

/// A message of the load.
pub(crate) fn message(payload: &[u8]) -> anyhow::Result<Message> {
    let draft = whimbrel_pubsub::message::Draft { topic: TOPIC, payload, ..Default::default() };
    Ok(draft.finish()?)
}
