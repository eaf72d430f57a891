//! Raw native clients.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use tokio::time::timeout;
use whimbrel::{Config, Endpoint, MessageStream, Mocket, Sender, StreamOptions};
use whimbrel_pubsub::client::endpoint_config;
use whimbrel_pubsub::coverage::SubscriptionId;
use whimbrel_pubsub::frame::{
    Attached, BrokerFrame, ClientFrame, Hello, Kind, Recover, Slow, Subscribe, Subscribed, SubscriberFrame,
    SubscriptionFrame, Welcome,
};
use whimbrel_pubsub::message::Message;

/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// An endpoint for clients, with a key of its own.
pub(crate) async fn endpoint() -> anyhow::Result<Endpoint> {
    Ok(Endpoint::bind(endpoint_config(Config::default()), "127.0.0.1:0").await?)
}

/// Connects as a client, and says hello.
pub(crate) async fn connect(endpoint: &Endpoint, url: &str) -> anyhow::Result<(Mocket, Welcome)> {
    let greet = async {
        let mocket = endpoint.connect(url).await?;
        mocket.send(ClientFrame::Hello(Hello::default()).encode()).await?;
        match BrokerFrame::parse(&mocket.recv().await?.payload)? {
            BrokerFrame::Welcome(welcome) => Ok((mocket, welcome)),
            _ => bail!("the broker does not say welcome"),
        }
    };
    timeout(PATIENCE, greet).await.context("a broker does not answer")?
}

/// Subscribes, and waits until the broker has agreed. Returns the generation of a durable subscription, too, and 0 of others.
pub(crate) async fn subscribe(
    mocket: &Mocket,
    filter: &str,
    selector: Option<String>,
    kind: Kind,
) -> anyhow::Result<(MessageStream, Subscribed, u64)> {
    let mut stream = mocket.open_messages(StreamOptions::default()).await?;
    let (filter, recover, slow) = (filter.to_owned(), Recover::First, Slow::Wait);
    let subscribe = Subscribe { filter, selector, kind, recover, slow };
    stream.send(SubscriberFrame::Subscribe(subscribe).encode()).await?;
    let answer = timeout(PATIENCE, stream.recv()).await.context("a broker does not answer")??;
    match SubscriptionFrame::parse(&answer.payload)? {
        SubscriptionFrame::Subscribed(subscribed) => Ok((stream, subscribed, 0)),
        SubscriptionFrame::Attached(Attached { subscribed, generation, .. }) => {
            Ok((stream, subscribed, generation))
        }
        other => bail!("the broker does not take the subscription: {other:?}"),
    }
}

/// The name of a subscription's state.
pub(crate) fn subscription_id(number: u64) -> SubscriptionId {
    SubscriptionId(1 + u128::from(number))
}

/// A way to publish, within the broker's credit.
#[derive(Debug)]
pub(crate) struct Outlet {
    _endpoint: Endpoint,
    mocket: Mocket,
    sender: Sender,
    credit: u64,
    sent: u64,
    answered: u64,
    frames: Vec<Bytes>,
}

/// Messages that are handed over at a time.
const BATCH: usize = 200;

impl Outlet {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let endpoint = endpoint().await?;
        let (mocket, welcome) = connect(&endpoint, url).await?;
        let (sender, credit) = (mocket.sender().build(), welcome.credit.messages.into());
        Ok(Self { _endpoint: endpoint, mocket, sender, credit, sent: 0, answered: 0, frames: Vec::new() })
    }

    /// How many messages the broker has taken.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Publishes a message. It goes with others, or when [`Outlet::flush`] is called.
    pub(crate) async fn publish(&mut self, message: Message) -> anyhow::Result<()> {
        self.sent += 1;
        self.frames.push(ClientFrame::Publish(self.sent, message).encode());
        let is_full = self.sent - self.answered == self.credit;
        if is_full || self.frames.len() == BATCH {
            self.flush().await?;
        }
        while self.sent - self.answered == self.credit {
            self.hear().await?;
        }
        Ok(())
    }

    /// Hands over what was published.
    pub(crate) async fn flush(&mut self) -> anyhow::Result<()> {
        self.sender.send_many(std::mem::take(&mut self.frames)).await?;
        while let Some(message) = self.mocket.try_recv() {
            self.answered = answer(&message.payload)?;
        }
        Ok(())
    }

    /// Waits until the broker has taken everything.
    pub(crate) async fn finish(&mut self) -> anyhow::Result<()> {
        self.flush().await?;
        while self.answered < self.sent {
            self.hear().await?;
        }
        Ok(())
    }

    async fn hear(&mut self) -> anyhow::Result<()> {
        let heard = timeout(PATIENCE, self.mocket.recv()).await.context("a broker does not answer")?;
        self.answered = answer(&heard.context("the broker has gone")?.payload)?;
        Ok(())
    }
}

/// Returns the last number that an answer is about.
fn answer(frame: &Bytes) -> anyhow::Result<u64> {
    match BrokerFrame::parse(frame)? {
        BrokerFrame::Published { last, .. } => Ok(last),
        other => bail!("the broker refuses a message: {other:?}"),
    }
}
