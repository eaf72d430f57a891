//! A client's session.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use whimbrel::{Mocket, PublicKey, StreamId};
use whimbrel_pubsub::frame::{BrokerFrame, ClientFrame, Welcome};

use super::access::Access;
use super::openings::Openings;
use super::publishing::{AGAIN, CREDIT, Publishing};
use super::subscriber::{self, Who};
use crate::hub::{Client, ClientId, Hub};

/// How long a client may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// The most messages that are taken before they are acknowledged together.
const BATCH: usize = 256;
/// The stream of what belongs to none.
const NO_STREAM: StreamId = StreamId(0);
/// Closing a session for what the client did wrong.
const MISUSED: u64 = 1;

/// Serves a client until its session ends.
pub(super) fn run(hub: Arc<Hub>, mocket: Mocket, access: Arc<Access>) -> impl Future<Output = ()> {
    // In a box, as all that a client does not need any more once it has said hello. There are many.
    let greeting = Box::pin(greet(hub, mocket, access));
    async move {
        if let Some(session) = greeting.await {
            session.run().await;
        }
    }
}

/// Waits until a client has said hello, and answers. `None`: the session has ended.
async fn greet(hub: Arc<Hub>, mocket: Mocket, access: Arc<Access>) -> Option<Box<Session>> {
    mocket.established().await.ok()?;
    let key = mocket.peer_key();
    let name = key.map_or_else(|| "somebody".to_owned(), |key| key.to_string());
    let known = Arc::new(Client::new(&name, Some(mocket.peer_addr())));
    let publishing = Publishing::new(Arc::clone(&hub), Arc::clone(&access), key, Arc::clone(&known));
    let session = Box::new(Session { hub, mocket, access, client: client_of(key), known, publishing });
    match session.greet().await {
        Ok(true) => Some(session),
        Ok(false) => None,
        Err(why) => {
            session.mocket.close(MISUSED, &why).await;
            None
        }
    }
}

/// Waits until `due`, or for good if that is never.
async fn pause(due: Option<Instant>) {
    match due {
        // In a box, since few wait for a time.
        Some(due) => Box::pin(sleep_until(due.into())).await,
        None => std::future::pending().await,
    }
}

/// The number by which a client's limits are kept.
fn client_of(key: Option<PublicKey>) -> ClientId {
    let bytes = key.map(|key| *key.as_bytes()).unwrap_or_default();
    u64::from_le_bytes(std::array::from_fn(|at| bytes[at]))
}

struct Session {
    hub: Arc<Hub>,
    mocket: Mocket,
    access: Arc<Access>,
    client: ClientId,
    /// The client as reports name it.
    known: Arc<Client>,
    publishing: Publishing,
}

impl Session {
    async fn run(mut self: Box<Self>) {
        if let Err(why) = self.serve().await {
            Box::pin(self.mocket.close(MISUSED, &why)).await;
        }
    }

    /// Waits for the client's hello and answers it. Returns whether the session goes on. Fails if the client does what no client should.
    async fn greet(&self) -> Result<bool, String> {
        let hello = tokio::time::timeout(HELLO, self.mocket.recv());
        let Ok(first) = hello.await else { return Err("the client does not say hello".to_owned()) };
        let Ok(first) = first else { return Ok(false) };
        let Ok(ClientFrame::Hello(hello)) = ClientFrame::parse(&first.payload) else {
            return Err("the first message is not a hello of this version".to_owned());
        };
        self.hub.follow(hello.latest);
        let name = self.hub.name();
        let (cluster, broker, name) = (name.cluster, name.broker, name.name.clone());
        let welcome = BrokerFrame::Welcome(Welcome { cluster, broker, name, credit: CREDIT });
        Ok(self.mocket.send(welcome.encode()).await.is_ok())
    }

    /// Serves until the session is closed. Fails if the client does what no client should.
    async fn serve(&mut self) -> Result<(), String> {
        // Subscriptions end with the session.
        let mut subscribers = JoinSet::new();
        let roomy = Arc::new(Semaphore::new(subscriber::ROOMY));
        let (mut received, mut openings) = (Vec::new(), Openings::default());
        loop {
            // A client that is beyond its quota is not read, so that it runs out of credit and waits.
            let held = self.publishing.pace.until(Instant::now());
            let reads = held.is_none() && !self.publishing.is_holding();
            let again = self.publishing.is_holding().then(|| Instant::now() + AGAIN);
            let due = held.into_iter().chain(again).min();
            tokio::select! {
                () = pause(due), if due.is_some() => self.publishing.go_on(),
                number = self.mocket.recv_many(&mut received, BATCH), if reads => {
                    if number.is_err() {
                        return Ok(());
                    }
                    let mut published = Vec::with_capacity(received.len());
                    for message in received.drain(..) {
                        if message.stream == NO_STREAM {
                            published.push(message.payload);
                        } else if openings.arrived(message.stream, message.payload).is_err() {
                            return Err("the client opens too many streams at once".to_owned());
                        }
                    }
                    self.publishing.take(published)?;
                    // What needs no disk is answered at once.
                    let known = std::future::poll_fn(|cx| Poll::Ready(self.publishing.answers.poll(cx))).await;
                    if !self.answer(known).await {
                        return Ok(());
                    }
                    if self.publishing.exceeds_credit() {
                        return Err("the client publishes more than its credit".to_owned());
                    }
                }
                known = self.publishing.answers.next(), if !self.publishing.answers.is_empty() => {
                    if !self.answer(known).await {
                        return Ok(());
                    }
                    self.publishing.go_on();
                }
                // The first message of a stream may be among what is not read now.
                stream = self.mocket.accept_messages(), if reads => {
                    let Ok(stream) = stream else { return Ok(()) };
                    let first = openings.accept(stream.id());
                    let key = self.mocket.peer_key();
                    let quota = self.access.of(key.as_ref()).quota;
                    if subscribers.len() >= quota.subscriptions(usize::MAX) {
                        subscribers.spawn(subscriber::refuse(stream, quota));
                        continue;
                    }
                    let (known, access) = (Arc::clone(&self.known), Arc::clone(&self.access));
                    let who = Who { client: self.client, key, known, access };
                    let hub = Arc::clone(&self.hub);
                    let roomy = Arc::clone(&roomy);
                    subscribers.spawn(subscriber::run(hub, stream, first, who, roomy));
                }
                Some(_) = subscribers.join_next() => {}
            }
        }
    }

    /// Sends answers. Returns whether that was possible.
    async fn answer(&self, frames: Vec<Bytes>) -> bool {
        for frame in frames {
            if self.mocket.send(frame).await.is_err() {
                return false;
            }
        }
        true
    }
}
