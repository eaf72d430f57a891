//! Wills on their way into their channels.
//!
//! Nobody is there to send a Will again. One whose channel has no room waits here, and one that is refused is counted and told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::Message;

use crate::hub::{Client, Finding, Hub, NotTaken, Publishing, Storing};

/// The most Wills that wait.
pub(super) const MOST_WAITING: usize = 10_000;
/// The most bytes of them.
pub(super) const MOST_WAITING_BYTES: usize = 16 << 20;
/// The most different reasons that people are told.
const MOST_TOLD: usize = 16;
/// The pause between two tries while the broker stops.
const AGAIN: Duration = Duration::from_millis(10);

/// Tells people what they should know.
pub(super) type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// The Wills that are due.
pub(super) struct Wills {
    hub: Arc<Hub>,
    client: Arc<Client>,
    tell: Tell,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Those whose channels have no room, in order.
    waiting: VecDeque<Will>,
    bytes: usize,
    /// Those that are being stored.
    storing: Vec<Storing>,
    finding: Finding,
    refused: u64,
    told: BTreeSet<String>,
}

#[derive(Debug)]
struct Will {
    user: Option<String>,
    message: Message,
}

/// Wills as they are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) waiting: usize,
    pub(super) refused: u64,
}

impl Wills {
    pub(super) fn new(hub: Arc<Hub>, tell: Tell) -> Self {
        let client = Arc::new(Client::new("Wills of MQTT clients", None));
        Self { hub, client, tell, inner: Mutex::default() }
    }

    /// Publishes the Will of a user's client. It waits if its channel has no room, or if others wait.
    pub(super) fn publish(&self, user: Option<String>, message: Message) {
        let mut inner = self.inner();
        inner.bytes += message.encoded().len();
        inner.waiting.push_back(Will { user, message });
        let outcomes = if inner.waiting.len() == 1 { self.offer(&mut inner) } else { inner.make_room() };
        self.on_outcomes(inner, outcomes);
    }

    /// Counts a Will that must not be published, and tells why.
    pub(super) fn refuse(&self, why: fmt::Arguments<'_>) {
        self.on_outcomes(self.inner(), vec![Err(Refusal::new(RefusalCode::NotPermitted, why))]);
    }

    /// Goes on with those that wait.
    pub(super) fn tick(&self) {
        let mut inner = self.inner();
        let mut outcomes = self.offer(&mut inner);
        outcomes.extend(inner.poll_stored());
        self.on_outcomes(inner, outcomes);
    }

    /// The broker stops. Those that still wait get so much time; then they are refused, and so are `later` ones whose time has not come.
    pub(super) async fn stop(&self, time: Duration, later: usize) {
        let until = Instant::now() + time;
        loop {
            self.tick();
            let (waiting, storing) = (self.counts().waiting, self.inner().storing.len());
            if waiting + storing == 0 || Instant::now() >= until {
                break;
            }
            sleep(AGAIN).await;
        }
        let mut inner = self.inner();
        let left = inner.waiting.len() + std::mem::take(&mut inner.storing).len();
        inner.waiting.clear();
        inner.bytes = 0;
        let refused = |number, why: &str| vec![Err(Refusal::new(RefusalCode::Unavailable, why)); number];
        let mut outcomes = refused(left, "the broker stopped before its channel had room");
        outcomes.extend(refused(later, "the broker stopped before its delay was over"));
        self.on_outcomes(inner, outcomes);
    }

    pub(super) fn counts(&self) -> Counts {
        let Inner { waiting, refused, .. } = &*self.inner();
        Counts { waiting: waiting.len(), refused: *refused }
    }

    /// Offers those that wait to their channels, in order. Returns what became of those that wait no more.
    fn offer(&self, inner: &mut Inner) -> Vec<Result<(), Refusal>> {
        let mut outcomes = Vec::new();
        for will in std::mem::take(&mut inner.waiting) {
            let bytes = will.message.encoded().len();
            if inner.storing.len() >= MOST_WAITING {
                inner.waiting.push_back(will);
                continue;
            }
            match self.hub.take_safely(will.message.clone(), &mut inner.finding) {
                Err(NotTaken::Busy(_)) => {
                    inner.waiting.push_back(will);
                    continue;
                }
                Err(NotTaken::Refused(refusal)) => outcomes.push(Err(refusal)),
                Ok((_, storing)) if storing.is_safe() => outcomes.push(Ok(())),
                Ok((_, storing)) => inner.storing.push(storing),
            }
            inner.bytes -= bytes;
        }
        self.hub.wake_for_taken(&mut inner.finding);
        outcomes.extend(inner.make_room());
        outcomes
    }

    fn on_outcomes(&self, mut inner: MutexGuard<'_, Inner>, outcomes: Vec<Result<(), Refusal>>) {
        let mut to_tell = Vec::new();
        let all = outcomes.len() as u64;
        let mut refused = 0;
        for refusal in outcomes.into_iter().filter_map(Result::err) {
            refused += 1;
            if inner.told.len() < MOST_TOLD && inner.told.insert(refusal.reason.clone()) {
                to_tell.push(format!("a Will of an MQTT client was not published: {}", refusal.reason));
            }
        }
        inner.refused += refused;
        drop(inner);
        // A publisher that leaves at once: it counts, and is none of those who are connected.
        Publishing::new(Arc::clone(&self.hub), Arc::clone(&self.client)).on_published(all - refused, refused);
        to_tell.iter().for_each(|what| (self.tell)(what));
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Makes room by giving up the newest Wills of the user who has the most: users do not lose theirs to others.
    fn make_room(&mut self) -> Vec<Result<(), Refusal>> {
        let mut refused = Vec::new();
        while self.waiting.len() > MOST_WAITING || self.bytes > MOST_WAITING_BYTES {
            let mut users = BTreeMap::<_, usize>::new();
            for Will { user, message } in &self.waiting {
                *users.entry(user).or_default() += message.encoded().len();
            }
            let most = users.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(user, _)| user.clone());
            let Some(at) = most.and_then(|most| self.waiting.iter().rposition(|will| will.user == most))
            else {
                break;
            };
            if let Some(will) = self.waiting.remove(at) {
                self.bytes -= will.message.encoded().len();
            }
            let why = "its channel has no room, and too many Wills are waiting for it";
            refused.push(Err(Refusal::new(RefusalCode::Limit, why)));
        }
        refused
    }

    /// Returns what became of those that were being stored.
    fn poll_stored(&mut self) -> Vec<Result<(), Refusal>> {
        let mut outcomes = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        self.storing.retain_mut(|storing| match Pin::new(storing).poll(&mut cx) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                outcomes.push(outcome);
                false
            }
        });
        outcomes
    }
}

impl fmt::Debug for Wills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wills").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::coverage::ClusterId;
    use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft};

    use super::*;
    use crate::hub::{BrokerName, ChannelRules, Durability, StorePlace};
    use crate::store::StoreSettings;

    struct Broker {
        hub: Arc<Hub>,
        wills: Wills,
        told: Arc<Mutex<Vec<String>>>,
        folder: std::path::PathBuf,
    }

    impl Drop for Broker {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.folder).ok();
        }
    }

    /// A broker whose channel `busy` needs a copy at a broker that is away, and whose channel `free` is in memory.
    fn broker(name: &str) -> Broker {
        let folder = std::env::temp_dir().join(format!("whimbrel-wills-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let own = BrokerName { cluster: ClusterId(1), broker: BrokerId(2), name: "b".to_owned() };
        let channel = |id: u32, topics: &str| {
            let mut rules = ChannelRules::all_topics();
            rules.settings.id = ChannelId(id);
            rules.topics = vec![topics.parse().unwrap()];
            rules.name = topics.to_owned();
            rules
        };
        let mut busy = channel(1, "busy/#");
        busy.settings.peers = vec![BrokerId(3)];
        (busy.durable.when, busy.durable.replicas) = (Durability::Always, Some(2));
        let place = StorePlace { folder: Ok(folder.clone()), settings: StoreSettings::default() };
        let rules = vec![busy, channel(2, "free/#")];
        let hub = Hub::with_store(own, rules, crate::matching::Limits::default(), place);
        hub.open_store().unwrap();
        let told = Arc::<Mutex<Vec<String>>>::default();
        let tells = Arc::clone(&told);
        let tell = Box::new(move |what: &str| tells.lock().unwrap().push(what.to_owned()));
        Broker { wills: Wills::new(Arc::clone(&hub), tell), hub, told, folder }
    }

    fn will(topic: &str, bytes: usize) -> Message {
        Draft { topic, payload: &vec![0; bytes], ..Draft::default() }.finish().unwrap()
    }

    fn arrived(hub: &Hub) -> u64 {
        hub.report().iter().map(|room| room.arrived).sum()
    }

    /// They were dropped without a word.
    #[tokio::test]
    async fn regression_a_will_waits_while_its_channel_has_no_room() {
        let broker = broker("waits");
        let Broker { hub, wills, told, .. } = &broker;
        wills.publish(None, will("busy/1", 1));
        wills.publish(None, will("free/1", 1));
        assert_eq!(wills.counts(), Counts { waiting: 2, refused: 0 });
        wills.tick();
        assert_eq!((wills.counts().waiting, arrived(hub)), (1, 1), "a free channel is not held up");
        let ours = hub.map(|_| true);
        let shared = hub.meet(BrokerId(3), "other".to_owned(), &ours, (ours.clone(), None)).unwrap();
        let _link = hub.share_with(BrokerId(3), &shared);
        wills.tick();
        assert_eq!((wills.counts().waiting, arrived(hub)), (0, 2));
        wills.publish(None, will("nobody's", 1));
        assert_eq!(wills.counts(), Counts { waiting: 0, refused: 1 });
        assert_eq!(told.lock().unwrap().len(), 1);
        assert_eq!(hub.register().sums().refused, 1);
    }

    #[tokio::test]
    async fn wills_that_wait_are_bounded_and_users_keep_theirs() {
        let broker = broker("bounded");
        let wills = &broker.wills;
        wills.publish(Some("fisher".to_owned()), will("busy/fisher", 100));
        for _ in 0..MOST_WAITING_BYTES / 500_000 + 2 {
            wills.publish(None, will("busy/flood", 500_000));
        }
        let counts = wills.counts();
        assert!(counts.waiting <= MOST_WAITING_BYTES / 500_000 + 1 && counts.refused >= 2, "{counts:?}");
        let inner = wills.inner();
        assert!(inner.bytes <= MOST_WAITING_BYTES && inner.waiting[0].user.is_some());
    }

    #[tokio::test]
    async fn what_a_stop_leaves_unpublished_is_told() {
        let broker = broker("stop");
        let Broker { wills, told, .. } = &broker;
        wills.publish(None, will("busy/1", 1));
        wills.stop(Duration::from_millis(20), 3).await;
        assert_eq!(wills.counts(), Counts { waiting: 0, refused: 4 });
        let told = told.lock().unwrap().join(";");
        assert!(told.contains("had room") && told.contains("delay was over"), "{told}");
    }
}
