//! Keeps a subscription attached.

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use whimbrel::{MessageStream, StreamOptions};

use super::backoff::Backoff;
use super::link::Link;
use super::options::{Durability, Subscribing};
use super::publishing;
use super::session::Session;
use super::subscribing::Event;
use crate::coverage::{Coverage, SubscriptionId, SubscriptionState, Told};
use crate::frame::{
    Attached, Kind, Refusal, RefusalCode, Start, Subscribe, Subscribed, SubscriberFrame, SubscriptionFrame,
};
use crate::message::{BrokerId, ChannelId};

/// Something for the program's end.
#[derive(Debug)]
pub(super) enum Arrived {
    /// It is attached at the broker of this name, for these channels. These brokers have not confirmed a durable one.
    Attached(String, Vec<ChannelId>, Vec<BrokerId>),
    Told(ChannelId, Told),
    Event(Event),
}

/// Why a stream is over.
enum Over {
    /// The session has ended, or the broker cannot serve now.
    Again(String),
    /// Nothing more comes.
    For(Event),
    /// Nobody listens any more.
    Dropped,
}

/// Attaches the subscription at each broker that the client comes to.
pub(super) async fn run(
    subscribing: Subscribing,
    mut link: watch::Receiver<Link>,
    out: mpsc::Sender<Arrived>,
    (acknowledged, sent): (watch::Receiver<Coverage>, watch::Sender<Coverage>),
) {
    let mut attaching = Attaching::new(subscribing, acknowledged, sent);
    let mut backoff = Backoff::new();
    loop {
        let session = match &*link.borrow_and_update() {
            Link::Up(session) => Some(session.clone()),
            Link::Failed(error) => {
                let failed = Event::Failed(error.clone());
                drop(out.try_send(Arrived::Event(failed)));
                return;
            }
            Link::Searching => None,
        };
        if let Some(session) = session {
            let over = tokio::select! {
                over = attaching.attend(&session, &out) => over,
                // Whoever waits for room in the program's queue waits for nothing if nobody is left.
                () = out.closed() => Over::Dropped,
            };
            let why = match over {
                Over::Again(why) => why,
                Over::For(event) => {
                    drop(out.send(Arrived::Event(event)).await);
                    return;
                }
                Over::Dropped => return,
            };
            if out.send(Arrived::Event(Event::Detached(why))).await.is_err() {
                return;
            }
            if session.mocket().is_closed() {
                backoff.reset();
            } else {
                // The broker cannot serve it now: the session stands.
                sleep(backoff.next()).await;
                continue;
            }
        }
        tokio::select! {
            changed = link.changed() => if changed.is_err() {
                return;
            },
            () = out.closed() => return,
        }
    }
}

struct Attaching {
    subscribing: Subscribing,
    /// The state with everything that arrived here, whether the program has taken it or not.
    ahead: Option<SubscriptionState>,
    /// The coverage that the program has acknowledged. It is for durable subscriptions.
    acknowledged: watch::Receiver<Coverage>,
    /// The part of it that the broker was told.
    sent: watch::Sender<Coverage>,
    is_durable: bool,
    /// The generation of a durable subscription at its last attachment, or the last attempt since. 0: it was not attached yet.
    generation: u64,
}

impl Attaching {
    fn new(
        subscribing: Subscribing,
        acknowledged: watch::Receiver<Coverage>,
        sent: watch::Sender<Coverage>,
    ) -> Self {
        let (ahead, is_durable) = match &subscribing.durability {
            Durability::SemiDurable(state) => (state.clone(), false),
            Durability::Durable { state, .. } => {
                (Some(state.clone().unwrap_or_else(SubscriptionState::nameless)), true)
            }
            Durability::Nondurable => (None, false),
        };
        Self { subscribing, ahead, acknowledged, sent, is_durable, generation: 0 }
    }

    /// Attaches at the broker of `session`, and hands on what it tells until that is over.
    async fn attend(&mut self, session: &Session, out: &mpsc::Sender<Arrived>) -> Over {
        let stream = match session.mocket().open_messages(StreamOptions::default()).await {
            Ok(stream) => stream,
            Err(error) => return Over::Again(error.to_string()),
        };
        let frame = SubscriberFrame::Subscribe(self.subscribe(session));
        if let Err(error) = stream.send(frame.encode()).await {
            return Over::Again(error.to_string());
        }
        self.listen(stream, session, out).await
    }

    async fn listen(
        &mut self,
        mut stream: MessageStream,
        session: &Session,
        out: &mpsc::Sender<Arrived>,
    ) -> Over {
        let mut is_attached = false;
        loop {
            let received = tokio::select! {
                received = stream.recv() => received,
                Ok(()) = self.acknowledged.changed(), if is_attached && self.is_durable => {
                    match self.acknowledge(&stream).await {
                        Ok(()) => continue,
                        Err(over) => return over,
                    }
                }
            };
            let message = match received {
                Ok(message) => message,
                Err(error) => return Over::Again(error.to_string()),
            };
            match SubscriptionFrame::parse(&message.payload) {
                Ok(SubscriptionFrame::Subscribed(subscribed)) => {
                    is_attached = true;
                    if let Err(over) = self.attached(subscribed, Vec::new(), &stream, (session, out)).await {
                        return over;
                    }
                }
                Ok(SubscriptionFrame::Attached(Attached { subscribed, generation, unconfirmed })) => {
                    is_attached = true;
                    self.generation = self.generation.max(generation);
                    if let Err(over) = self.attached(subscribed, unconfirmed, &stream, (session, out)).await {
                        return over;
                    }
                }
                Ok(SubscriptionFrame::Told(channel, told)) => {
                    for told in told {
                        self.note(channel, &told);
                        if let Err(over) = self.hand_on(Arrived::Told(channel, told), &stream, out).await {
                            return over;
                        }
                    }
                }
                Ok(SubscriptionFrame::Ended(refusal)) if refusal.code.is_temporary() => {
                    return Over::Again(refusal.reason);
                }
                Ok(SubscriptionFrame::Ended(refusal)) => return Over::For(Event::Refused(refusal)),
                Ok(SubscriptionFrame::Unsubscribed(_)) => {
                    let ended = "the broker answered a request that was not made";
                    return Over::For(Event::Refused(Refusal::new(RefusalCode::Mistake, ended)));
                }
                Err(error) => {
                    return Over::For(Event::Refused(Refusal::new(RefusalCode::Mistake, error)));
                }
            }
        }
    }

    async fn attached(
        &mut self,
        Subscribed { channels, .. }: Subscribed,
        unconfirmed: Vec<BrokerId>,
        stream: &MessageStream,
        (session, out): (&Session, &mpsc::Sender<Arrived>),
    ) -> Result<(), Over> {
        if let Some(ahead) = &mut self.ahead {
            ahead.note_channels(&channels);
        }
        // What was acknowledged last may not have come to the former broker.
        self.acknowledged.mark_changed();
        let attached = Arrived::Attached(session.welcome().name.clone(), channels, unconfirmed);
        self.hand_on(attached, stream, out).await
    }

    /// Gives something to the program, and meanwhile tells the broker what the program acknowledges.
    async fn hand_on(
        &mut self,
        arrived: Arrived,
        stream: &MessageStream,
        out: &mpsc::Sender<Arrived>,
    ) -> Result<(), Over> {
        loop {
            tokio::select! {
                biased;
                room = out.reserve() => {
                    room.map_err(|_| Over::Dropped)?.send(arrived);
                    return Ok(());
                }
                Ok(()) = self.acknowledged.changed(), if self.is_durable => {
                    self.acknowledge(stream).await?;
                }
            }
        }
    }

    /// Tells the broker what the program has acknowledged.
    async fn acknowledge(&mut self, stream: &MessageStream) -> Result<(), Over> {
        let acknowledged = self.acknowledged.borrow_and_update().clone();
        for part in acknowledged.clone().parts() {
            let frame = SubscriberFrame::Acknowledge(part).encode();
            stream.send(frame).await.map_err(|error| Over::Again(error.to_string()))?;
        }
        self.sent.send_replace(acknowledged);
        Ok(())
    }

    fn note(&mut self, channel: ChannelId, told: &Told) {
        if let Some(ahead) = &mut self.ahead {
            // What is too much for a coverage may come again after a return.
            ahead.hear(channel, told).ok();
        }
    }

    /// Returns the request for the broker of `session`.
    fn subscribe(&mut self, session: &Session) -> Subscribe {
        // The former broker gives way to this attempt even if nobody hears its answer.
        self.generation += u64::from(self.generation > 0);
        let Subscribing { filter, selector, durability, from_held, recover, slow, .. } = &self.subscribing;
        let kind = match durability {
            Durability::Nondurable => Kind::Nondurable,
            Durability::SemiDurable(_) => {
                let cluster = session.welcome().cluster;
                let ahead = self.ahead.get_or_insert_with(|| {
                    let (filter, selector) = (filter.clone(), selector.clone());
                    let subscription = crate::coverage::Subscription { filter, selector };
                    SubscriptionState::new(SubscriptionId(publishing::random()), cluster, subscription)
                });
                let is_new = ahead.is_new();
                let start = match (is_new, from_held) {
                    (true, true) => Start::Held,
                    (true, false) => Start::Live,
                    (false, _) => Start::Coverage(ahead.coverage().clone()),
                };
                let cluster = (!is_new).then(|| ahead.cluster());
                Kind::SemiDurable { id: ahead.id(), generation: ahead.generation(), cluster, start }
            }
            Durability::Durable { name, .. } => Kind::Durable {
                name: name.clone(),
                // The broker counts until it has told how often.
                generation: self.generation,
                coverage: self.ahead.as_ref().map(|ahead| ahead.coverage().clone()).unwrap_or_default(),
            },
        };
        let (filter, selector) = (filter.clone(), selector.clone());
        Subscribe { filter, selector, kind, recover: *recover, slow: *slow }
    }
}
