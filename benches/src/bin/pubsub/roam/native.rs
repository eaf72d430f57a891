//! A native subscriber: a session at one broker after another, and the state between them.

use anyhow::{Context, bail};
use whimbrel::{Endpoint, MessageStream, Mocket};
use whimbrel_pubsub::coverage::{Coverage, Fate, Heard, Subscription, SubscriptionState, Told};
use whimbrel_pubsub::frame::{Kind, Start, SubscriberFrame, SubscriptionFrame, Welcome};

use super::Promise;
use super::ledger::Ledger;
use super::stamp::{Stamp, TENTHS};
use crate::client;

/// The topic of all messages.
pub(super) const TOPIC: &str = "roam";
/// The property that selectors and partitions read: 0 to 99.
pub(super) const PROPERTY: &str = "v";
/// The values of a tenth.
pub(super) const VALUES: usize = 100 / TENTHS;

/// A subscriber, connected or not.
#[derive(Debug)]
pub(super) struct Native {
    endpoint: Endpoint,
    promise: Promise,
    selection: Subscription,
    number: usize,
    /// The state of a semi-durable or durable one, once it was attached.
    state: Option<SubscriptionState>,
    /// The generation of a durable one at its last attachment. 0: it was not attached yet.
    generation: u64,
    session: Option<(Mocket, MessageStream)>,
    /// Deliveries that were not acknowledged.
    unacknowledged: u64,
}

/// How many deliveries a durable subscriber takes before it acknowledges them.
const ACKNOWLEDGED: u64 = 200;

impl Native {
    pub(super) async fn new(number: usize, tenth: usize, promise: Promise) -> anyhow::Result<Self> {
        let selector = format!("{PROPERTY} >= {} AND {PROPERTY} < {}", tenth * VALUES, (tenth + 1) * VALUES);
        Ok(Self {
            endpoint: client::endpoint().await?,
            promise,
            selection: Subscription { filter: TOPIC.to_owned(), selector: Some(selector) },
            number,
            state: None,
            session: None,
            generation: 0,
            unacknowledged: 0,
        })
    }

    /// Attaches at a broker.
    pub(super) async fn attach(&mut self, url: &str) -> anyhow::Result<()> {
        let (mocket, welcome) = client::connect(&self.endpoint, url).await?;
        let (kind, selector) = (self.kind(&welcome), self.selection.selector.clone());
        let (stream, subscribed, generation) = client::subscribe(&mocket, TOPIC, selector, kind).await?;
        self.generation = generation;
        if let Some(state) = &mut self.state {
            state.note_channels(&subscribed.channels);
        }
        self.session = Some((mocket, stream));
        Ok(())
    }

    fn kind(&mut self, welcome: &Welcome) -> Kind {
        if self.promise == Promise::Nondurable {
            return Kind::Nondurable;
        }
        let state = self.state.get_or_insert_with(|| {
            SubscriptionState::new(
                client::subscription_id(self.number as u64),
                welcome.cluster,
                self.selection.clone(),
            )
        });
        let attached = state.attach();
        let coverage = if state.is_new() { None } else { Some(state.coverage().clone()) };
        match self.promise {
            Promise::Durable => Kind::Durable {
                name: format!("roamer {}", self.number),
                // The broker names the first one.
                generation: if self.generation == 0 { 0 } else { self.generation + 1 },
                coverage: coverage.unwrap_or_default(),
            },
            _ => {
                let start = coverage.map_or(Start::Live, Start::Coverage);
                Kind::SemiDurable {
                    id: state.id(),
                    generation: attached,
                    cluster: Some(welcome.cluster),
                    start,
                }
            }
        }
    }

    /// Takes what has come, once something has. Cancel-safe.
    pub(super) async fn take(&mut self, ledger: &mut Ledger, now: impl Fn() -> u64) -> anyhow::Result<()> {
        let (_, stream) = self.session.as_mut().context("not attached")?;
        let mut next = Some(stream.recv().await.context("the broker ended a subscription")?);
        let now = now();
        while let Some(message) = next {
            match SubscriptionFrame::parse(&message.payload)? {
                SubscriptionFrame::Told(channel, all) => {
                    for told in all {
                        if let Some(state) = &mut self.state
                            && state.hear(channel, &told)? == Heard::Repeated
                        {
                            continue;
                        }
                        note(told, ledger, now);
                        self.unacknowledged += 1;
                    }
                }
                other => bail!("the broker ends a subscription: {other:?}"),
            }
            next = self.session.as_ref().and_then(|(_, stream)| stream.try_recv());
        }
        if self.promise == Promise::Durable && self.unacknowledged >= ACKNOWLEDGED {
            self.acknowledge().await?;
        }
        Ok(())
    }

    async fn acknowledge(&mut self) -> anyhow::Result<()> {
        self.unacknowledged = 0;
        let coverage = self.state.as_ref().map_or_else(Coverage::default, |state| state.coverage().clone());
        if let Some((_, stream)) = &self.session {
            for part in coverage.parts() {
                stream.send(SubscriberFrame::Acknowledge(part).encode()).await?;
            }
        }
        Ok(())
    }

    /// Goes away. What had come and was not taken is lost with the session.
    pub(super) fn leave(&mut self) {
        if let Some((mocket, _)) = self.session.take() {
            mocket.begin_close(0, "the subscriber goes away");
        }
    }
}

/// Notes what is told.
fn note(told: Told, ledger: &mut Ledger, now: u64) {
    match told {
        Told::Delivery(delivery) => {
            if let Some(stamp) = Stamp::read(&delivery.message.payload()) {
                ledger.came(stamp, now);
            }
        }
        Told::Fate { fate: Fate::Gone | Fate::Unknown, count, .. } => ledger.told += count.number,
        _ => {}
    }
}
