//! NATS: servers of others carry everything between brokers.
//!
//! A message is published once, by the broker at which it entered. Questions for what is missing, and their answers, go to one broker each.
//! NATS may lose messages. Brokers ask each other for lost ones, as they do over the mesh. Whoever may publish on the
//! cluster's subjects is trusted as one of its brokers. Brokers learn of each other as they introduce themselves.

mod assembly;
mod connecting;
mod connection;
mod envelope;
mod members;
mod receiving;
mod sending;
mod subjects;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Client;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use whimbrel::PublicKey;
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};

pub use connecting::{NatsAccess, NatsPlan};
pub use connection::NatsReport;

use super::frame::{Introduction, MeshFrame};
use super::link_report::{LinkReport, LinkState};
use super::traffic::Traffic;
use crate::hub::{ChannelMap, Hub};
use crate::tls::TlsError;
use connection::Connection;
use members::{ADVISED_FOR, MOST_MEMBERS, Member, Members};
use receiving::Directed;
use subjects::Subjects;

/// The most answers and greetings that wait to be sent, for all brokers together. What does not fit is asked for again.
const MOST_DIRECTED: usize = 16;
/// How long a broker that stops may take to send what it has.
const FAREWELL: Duration = Duration::from_secs(2);

/// A broker's part in a cluster whose brokers speak over NATS.
pub struct Nats {
    hub: Arc<Hub>,
    key: PublicKey,
    own: Origin,
    /// The channels of this broker, as others are told.
    map: Vec<ChannelMap>,
    client: Client,
    connection: Arc<Connection>,
    subjects: Subjects,
    members: Members,
    /// The traffic to all other brokers.
    sent: Traffic,
    directed: mpsc::Sender<Directed>,
    forget_after: Duration,
    /// The number of the last frame.
    last: AtomicU64,
    tell: Tell,
    /// The brokers of which people were told something.
    told: Mutex<BTreeSet<BrokerId>>,
    stopping: watch::Sender<bool>,
    tasks: Mutex<Tasks>,
}

/// Tells people what they should know.
type Tell = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct Tasks {
    publishing: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats")
            .field("own", &self.own)
            .field("subjects", &self.subjects)
            .finish_non_exhaustive()
    }
}

impl Nats {
    /// Joins the cluster as the broker with this key. A server that cannot be reached is retried, and the broker runs alone meanwhile.
    /// `tell` tells people what they should know.
    ///
    /// # Errors
    /// A file cannot be used, or the broker has no channel.
    pub async fn start(
        hub: Arc<Hub>,
        key: PublicKey,
        plan: &NatsPlan,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, TlsError> {
        let unusable = |why: String| TlsError { setting: "servers", why };
        let own = hub.own().ok_or_else(|| unusable("this broker has no channel".to_owned()))?;
        let tell: Tell = Arc::new(tell);
        let connection = Arc::<Connection>::default();
        let (state, telling) = (Arc::clone(&connection), Arc::clone(&tell));
        let on_event = move |event| {
            if let Some(told) = state.on_event(&event) {
                telling(&told);
            }
        };
        let client = plan.connect(&hub.name().name, on_event).await?;
        let (directed, to_be_sent) = mpsc::channel(MOST_DIRECTED);
        let (stopping, stopped) = watch::channel(false);
        let nats = Arc::new(Self {
            map: hub.map(|_| true),
            subjects: Subjects::of(hub.name().cluster),
            members: Members::default(),
            sent: Traffic::with(key),
            forget_after: plan.forget_after,
            last: AtomicU64::new(0),
            told: Mutex::default(),
            tasks: Mutex::default(),
            hub,
            key,
            own,
            client,
            connection,
            directed,
            tell,
            stopping,
        });
        let incoming = receiving::subscribe(&nats, &nats.client).await;
        let incoming = incoming.map_err(|error| unusable(error.to_string()))?;
        let outgoing = nats.hub.outgoing(&nats.hub.channels());
        let mut tasks = nats.tasks();
        tasks.publishing = Some(tokio::spawn(sending::publish(Arc::clone(&nats), outgoing, stopped)));
        tasks.others = vec![
            tokio::spawn(receiving::run(Arc::clone(&nats), incoming)),
            tokio::spawn(sending::direct(Arc::clone(&nats), to_be_sent)),
            tokio::spawn(sending::look_after(Arc::clone(&nats))),
        ];
        drop(tasks);
        Ok(nats)
    }

    /// Sends what was published here, within two seconds, and leaves.
    pub async fn stop(&self) {
        let Tasks { publishing, others } = std::mem::take(&mut *self.tasks());
        self.stopping.send_replace(true);
        let farewell = async {
            if let Some(publishing) = publishing {
                publishing.await.ok();
            }
            self.client.flush().await.ok();
        };
        drop(tokio::time::timeout(FAREWELL, farewell).await);
        others.into_iter().for_each(|task| task.abort());
    }

    /// Returns the brokers that were heard of in the last seconds.
    pub fn linked(&self) -> usize {
        let is_connected = self.is_connected();
        self.members.all().iter().filter(|(_, member)| is_connected && member.is_linked()).count()
    }

    /// Learns how fast brokers send, `elapsed` after the last time.
    pub fn look(&self, elapsed: Duration) {
        self.sent.look(elapsed);
        self.members.all().iter().for_each(|(_, member)| member.traffic.look(elapsed));
    }

    /// Returns a report on each broker that was heard of. What is published goes to all at once.
    pub fn report(&self) -> Vec<LinkReport> {
        let now = self.hub.clock().time();
        let behind = self.behind();
        let is_connected = self.is_connected();
        let of = |member: Arc<Member>| {
            let traffic = &member.traffic;
            let since = traffic.standing.linked_since().filter(|_| is_connected);
            let key = traffic.key.to_string();
            LinkReport {
                name: key.chars().take(8).collect(),
                key,
                linked: since.is_some(),
                state: if since.is_some() { LinkState::Linked } else { LinkState::Silent },
                away_s: since.is_none().then(|| now.since(member.heard()).as_secs_f64()),
                linked_s: since.map(|since| now.since(since).as_secs_f64()),
                sent: self.sent.sent(),
                received: traffic.received(),
                sent_per_s: self.sent.sent_rate.per_second(),
                received_per_s: traffic.received_rate.per_second(),
                behind: since.map(|_| behind),
                ..LinkReport::default()
            }
        };
        self.members.all().into_iter().map(|(_, member)| of(member)).collect()
    }

    /// Returns a report on the connection with NATS.
    pub fn connection(&self) -> NatsReport {
        let server = self.is_connected().then(|| self.client.server_info().server_name);
        let report = self.connection.report(self.subjects.all(), server, self.members.refused());
        let statistics = self.client.statistics();
        NatsReport {
            published: self.sent.sent(),
            sent_bytes: statistics.out_bytes.load(Ordering::Relaxed),
            received_bytes: statistics.in_bytes.load(Ordering::Relaxed),
            behind: self.behind(),
            ..report
        }
    }

    /// The number of messages that were published here and have yet to go to the servers.
    fn behind(&self) -> u64 {
        let highest = self.hub.own_highest();
        self.sent.behind(|channel| highest.get(&channel).copied().unwrap_or(0))
    }

    /// This broker's introduction, as a frame.
    fn introduction(&self) -> Bytes {
        let name = self.hub.name().name.clone();
        // Each broker keeps what is durable by itself.
        let (channels, kept) = (self.map.clone(), None);
        MeshFrame::Introduction(Introduction { key: self.key, name, channels, kept }).encode()
    }

    /// Tells a broker that is new, or new again, who this one is and what it knows.
    fn greet(&self, to: Origin, member: &Member) {
        let heads = member.shared().iter().map(|channel| (*channel, self.heads(*channel)));
        let heads = heads.filter(|(_, heads)| !heads.is_empty());
        let heads = heads.map(|(channel, heads)| MeshFrame::Heads(channel, heads).encode());
        let frames = [self.introduction()].into_iter().chain(heads).collect();
        // Without room, the broker hears it when all are told.
        self.directed.try_send((to.broker, frames, None)).ok();
    }

    /// Sends a broker the answer to its question.
    fn answer(&self, to: Origin, member: &Arc<Member>, frames: Vec<MeshFrame>) {
        let frames = frames.iter().map(MeshFrame::encode).collect();
        if self.directed.try_send((to.broker, frames, Some(Arc::clone(member)))).is_err() {
            member.end_answer();
        }
    }

    /// The highest sequences that are known here; of those published here, the highest that was sent.
    fn heads(&self, channel: ChannelId) -> Vec<(Origin, u64)> {
        let others = self.hub.heads(channel).into_iter().filter(|(origin, _)| *origin != self.own);
        let own = self.own_heads().into_iter().filter(|(of, _)| *of == channel).map(|(_, head)| head);
        others.chain(own).collect()
    }

    /// The highest sequence of this broker that was sent, of each channel.
    fn own_heads(&self) -> Vec<(ChannelId, (Origin, u64))> {
        let sent = self.sent.last_sent().into_iter().filter(|(_, last)| *last > 0);
        sent.map(|(channel, last)| (channel, (self.own, last))).collect()
    }

    fn forget_the_silent(&self) {
        let now = self.hub.clock().time();
        for broker in self.members.look(self.forget_after, now) {
            self.hub.part(broker);
        }
        self.members
            .silent_for(ADVISED_FOR, now)
            .into_iter()
            .for_each(|broker| self.hub.stop_advising(broker));
    }

    fn next_number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    fn tell(&self, what: &str) {
        (self.tell)(what);
    }

    /// Tells people something of a broker, unless they were told of that broker before.
    fn tell_once(&self, of: BrokerId, what: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_MEMBERS && told.insert(of) {
            drop(told);
            self.tell(what);
        }
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
