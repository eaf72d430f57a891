//! A client's session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use whimbrel::{Mocket, PublicKey, StreamId};
use whimbrel_pubsub::frame::{BrokerFrame, ClientFrame, Credit, Refusal, RefusalCode, Welcome};
use whimbrel_pubsub::message::{Hlc, Message};

use super::openings::Openings;
use super::{Access, subscriber};
use crate::buffer::Published;
use crate::hub::{Client, ClientId, Finding, Hub, Publishing};
use crate::quota::Pace;

/// How long a client may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// The most messages that are taken before they are acknowledged together.
const BATCH: usize = 256;
/// The most that a client may publish before an answer has come.
/// Repeated publications are recognised within a window that is not smaller.
const CREDIT: Credit = Credit { messages: 1_000, bytes: 4 << 20 };
/// The stream of what belongs to none.
const NO_STREAM: StreamId = StreamId(0);
/// Closing a session for what the client did wrong.
const MISUSED: u64 = 1;

/// Serves a client until its session ends.
pub(super) async fn run(hub: Arc<Hub>, mocket: Mocket, access: Arc<Access>) {
    if mocket.established().await.is_err() {
        return;
    }
    let client = client_of(mocket.peer_key());
    let name = mocket.peer_key().map_or_else(|| "somebody".to_owned(), |key| key.to_string());
    let known = Arc::new(Client::new(&name, Some(mocket.peer_addr())));
    let publishing = Publishing::new(Arc::clone(&hub), Arc::clone(&known));
    let pace = access.pace(mocket.peer_key());
    let finding = Finding::default();
    let mut session = Session { hub, mocket, access, client, pace, known, publishing, finding, next: 1 };
    if let Err(why) = session.serve().await {
        session.mocket.close(MISUSED, &why).await;
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
    pace: Arc<Pace>,
    finding: Finding,
    /// The number of the next message that is published.
    next: u64,
}

/// Answers to what was published, the usual ones in ranges.
#[derive(Default)]
struct Answers {
    taken: Option<(u64, u64, Hlc)>,
    frames: Vec<Bytes>,
}

impl Answers {
    fn taken(&mut self, number: u64, latest: Hlc) {
        let first = self.taken.map_or(number, |(first, ..)| first);
        self.taken = Some((first, number, latest));
    }

    fn refused(&mut self, number: u64, refusal: Refusal) {
        self.close();
        self.frames.push(BrokerFrame::Refused(number, refusal).encode());
    }

    fn close(&mut self) {
        if let Some((first, last, latest)) = self.taken.take() {
            self.frames.push(BrokerFrame::Published { first, last, latest }.encode());
        }
    }
}

impl Session {
    /// Serves until the session is closed. Fails if the client does what no client should.
    async fn serve(&mut self) -> Result<(), String> {
        let hello = tokio::time::timeout(HELLO, self.mocket.recv());
        let Ok(first) = hello.await else { return Err("the client does not say hello".to_owned()) };
        let Ok(first) = first else { return Ok(()) };
        let Ok(ClientFrame::Hello(hello)) = ClientFrame::parse(&first.payload) else {
            return Err("the first message is no hello of this version".to_owned());
        };
        self.hub.follow(hello.latest);
        let name = self.hub.name();
        let (cluster, broker, name) = (name.cluster, name.broker, name.name.clone());
        let welcome = BrokerFrame::Welcome(Welcome { cluster, broker, name, credit: CREDIT });
        if self.mocket.send(welcome.encode()).await.is_err() {
            return Ok(());
        }
        // Subscriptions end with the session.
        let mut subscribers = JoinSet::new();
        let roomy = Arc::new(Semaphore::new(subscriber::ROOMY));
        let (mut received, mut openings) = (Vec::new(), Openings::default());
        loop {
            // A client that is beyond its quota is not read, so that it runs out of credit and waits.
            let held = self.pace.until(Instant::now());
            tokio::select! {
                () = sleep_until(held.unwrap_or_else(Instant::now).into()), if held.is_some() => {}
                number = self.mocket.recv_many(&mut received, BATCH), if held.is_none() => {
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
                    let answers = self.publish(published)?;
                    for answer in answers {
                        if self.mocket.send(answer).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                stream = self.mocket.accept_messages() => {
                    let Ok(stream) = stream else { return Ok(()) };
                    let first = openings.accept(stream.id());
                    let key = self.mocket.peer_key();
                    let quota = self.access.of(key.as_ref()).quota;
                    if subscribers.len() >= quota.subscriptions(usize::MAX) {
                        subscribers.spawn(subscriber::refuse(stream, quota));
                        continue;
                    }
                    let rights = subscriber::Rights { access: Arc::clone(&self.access), key };
                    let most = self.mocket.max_unfragmented();
                    let hub = Arc::clone(&self.hub);
                    let roomy = Arc::clone(&roomy);
                    let client = (self.client, Arc::clone(&self.known));
                    subscribers.spawn(subscriber::run(hub, stream, first, client, rights, most, roomy));
                }
                Some(_) = subscribers.join_next() => {}
            }
        }
    }

    /// Takes what was published. Returns the answers.
    fn publish(&mut self, received: Vec<Bytes>) -> Result<Vec<Bytes>, String> {
        let key = self.mocket.peer_key();
        let permissions = self.access.of(key.as_ref());
        let mut answers = Answers::default();
        let (mut taken, mut refused) = (0, 0);
        let mut taking = self.hub.taking(&mut self.finding);
        for payload in received {
            let (number, message) = match ClientFrame::parse(&payload) {
                Ok(ClientFrame::Publish(number, message)) => (number, Ok(message)),
                Ok(ClientFrame::Hello(_)) => return Err("the client says hello a second time".to_owned()),
                Err(error) => match ClientFrame::number_of(&payload) {
                    Some(number) => (number, Err(Refusal::new(RefusalCode::Mistake, error))),
                    None => return Err(error.to_string()),
                },
            };
            if number != self.next {
                return Err(format!("message {number} was published where {} was due", self.next));
            }
            self.next += 1;
            let permitted = message.and_then(|message| may_publish(&permissions, key.as_ref(), message));
            let permitted = permitted.and_then(|message| {
                let spent = self.pace.spend(&permissions.quota, payload.len(), Instant::now());
                spent.map(|()| message).map_err(|error| Refusal::new(RefusalCode::Limit, error))
            });
            match permitted.and_then(|message| taking.publish(message)) {
                Ok(Published::Taken(stamp) | Published::Repeated(stamp)) => {
                    taken += 1;
                    answers.taken(number, stamp.published)
                }
                Err(refusal) => {
                    refused += 1;
                    answers.refused(number, refusal)
                }
            }
        }
        drop(taking);
        self.publishing.on_published(taken, refused);
        answers.close();
        Ok(answers.frames)
    }
}

fn may_publish(
    permissions: &super::Permissions,
    key: Option<&PublicKey>,
    message: Message,
) -> Result<Message, Refusal> {
    if !permissions.may_publish(message.topic()) {
        let topic = message.topic();
        return Err(Refusal::new(
            RefusalCode::NotPermitted,
            format_args!("you may not publish to `{topic}`"),
        ));
    }
    let publisher = message.publication().map(|publication| publication.publisher);
    if publisher.is_some_and(|publisher| !key.is_some_and(|key| publisher.is_of_client(key.as_bytes()))) {
        return Err(Refusal::new(
            RefusalCode::NotPermitted,
            "the publisher's id is another client's: begin it with the first 8 bytes of your key",
        ));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::message::{Draft, Publication, PublisherId};

    use super::super::Permissions;
    use super::*;

    #[test]
    fn regression_a_client_cannot_publish_as_another() {
        let key = PublicKey::new([7; 32]).unwrap();
        let publish = |publisher| {
            let publication = Some(Publication { publisher, number: 9 });
            let message = Draft { topic: "t", publication, ..Draft::default() }.finish().unwrap();
            may_publish(&Permissions::everything(), Some(&key), message)
        };
        assert!(publish(PublisherId::of_client(&[7; 32], 5)).is_ok());
        for of_another in [PublisherId::of_client(&[8; 32], 5), PublisherId(5)] {
            assert_eq!(publish(of_another).unwrap_err().code, RefusalCode::NotPermitted);
        }
    }
}
