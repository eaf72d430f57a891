//! Multicast while it runs.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use whimbrel_pubsub::client::Client;

use super::dissemination::Dissemination;
use super::links::LocalLink;
use super::seen::SeenDatagrams;
use super::senders::GroupSenders;
use super::settings::{MulticastError, MulticastSettings};
use super::sockets::join;
use crate::allowance::Allowance;
use crate::protocol::{Announcement, Manner, ProxyInstance};
use crate::sockets::Mark;

/// How often the addresses of links are looked at.
const LOOK: Duration = Duration::from_secs(5);
/// The datagrams of all links that are carried in a second. Further ones are lost.
const HEARD_PER_SECOND: u32 = 2_000;
/// The pause after an error.
const PAUSE: Duration = Duration::from_millis(100);
/// The largest datagram of UDP.
const LARGEST: usize = 65_535;

/// Multicast.
#[derive(Debug)]
pub(crate) struct Multicast {
    settings: MulticastSettings,
    /// By this, peers tell apart what several proxies of one network carry.
    instance: ProxyInstance,
    state: Mutex<State>,
    /// The broker that carries groups, if there is one.
    broker: OnceLock<Dissemination>,
}

#[derive(Debug)]
struct State {
    links: Vec<LocalLink>,
    seen: SeenDatagrams,
    senders: GroupSenders,
    heard: Allowance,
}

/// A group that is heard on a link.
#[derive(Debug)]
struct Joined {
    socket: UdpSocket,
    group: SocketAddr,
    link: u32,
}

impl Multicast {
    /// Multicast by these settings. What is sent has `mark`.
    ///
    /// # Errors
    /// An interface is not there.
    pub(crate) fn new(settings: &MulticastSettings, mark: Mark) -> Result<Arc<Self>, MulticastError> {
        let links = LocalLink::list(&settings.interfaces)?;
        let is_there = |name: &&String| links.iter().any(|link| link.name == **name);
        if let Some(missing) = settings.interfaces.iter().find(|name| !is_there(name)) {
            return Err(MulticastError::NoInterface(missing.clone()));
        }
        let mut instance = [0; 16];
        aws_lc_rs::rand::fill(&mut instance).map_err(|_| std::io::Error::from(std::io::ErrorKind::Other))?;
        let state = State {
            links,
            seen: SeenDatagrams::default(),
            senders: GroupSenders::new(settings.ttl, mark),
            heard: Allowance::new(HEARD_PER_SECOND),
        };
        let (settings, state) = (settings.clone(), Mutex::new(state));
        Ok(Arc::new(Self { settings, instance: ProxyInstance(instance), state, broker: OnceLock::new() }))
    }

    /// Returns what carries groups, for ever. `send` sends a datagram to the peers with these names, or to all if there are
    /// none.
    ///
    /// # Errors
    /// A group cannot be joined.
    pub(crate) fn carry<S>(
        self: &Arc<Self>,
        send: S,
    ) -> Result<impl Future<Output = ()> + Send + use<S>, MulticastError>
    where
        S: Fn(&[String], &Announcement, &[u8]) + Clone + Send + Sync + 'static,
    {
        let mut all = Vec::new();
        for link in &self.lock().links {
            for group in &self.settings.groups {
                let joined = join(*group, link).and_then(UdpSocket::from_std);
                let interface = link.name.clone();
                let failed = |error| MulticastError::Join { group: *group, interface, error };
                all.push(Joined { socket: joined.map_err(failed)?, group: *group, link: link.index });
            }
        }
        let this = Arc::clone(self);
        Ok(async move {
            let (mut tasks, mut look) = (JoinSet::new(), interval(LOOK));
            for joined in all {
                tasks.spawn(Arc::clone(&this).hear(joined, send.clone()));
            }
            loop {
                look.tick().await;
                this.look();
            }
        })
    }

    /// Has groups go through the brokers of this client, if the settings have a broker. Returns what does so for ever.
    pub(crate) fn disseminate<T: Fn(String) + Clone + Send + Sync + 'static>(
        self: &Arc<Self>,
        client: Client,
        tell: T,
    ) -> Option<impl Future<Output = ()> + Send + use<T>> {
        let settings = self.settings.broker.as_ref()?;
        let groups = &self.settings.groups;
        let (broker, running) = Dissemination::start(settings, groups, Arc::clone(self), client, tell);
        self.broker.set(broker).is_ok().then_some(running)
    }

    async fn hear(self: Arc<Self>, joined: Joined, send: impl Fn(&[String], &Announcement, &[u8])) {
        let mut buffer = vec![0; LARGEST];
        loop {
            match joined.socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    // Messages between proxies have no scope of a link.
                    let from = SocketAddr::new(from.ip(), from.port());
                    let payload = &buffer[..length];
                    if let Some(announcement) = self.on_heard(&joined, from, payload) {
                        send(&self.settings.peers, &announcement, payload);
                    }
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Returns the announcement of a datagram that is carried.
    fn on_heard(&self, joined: &Joined, source: SocketAddr, payload: &[u8]) -> Option<Announcement> {
        let now = Instant::now();
        let carries = {
            let mut state = self.lock();
            let State { links, seen, senders, heard } = &mut *state;
            let link = links.iter().find(|link| link.index == joined.link);
            // Who sends on in the name of others is not on the link, and we ourselves are no source. What others have sent
            // on is remembered, too: it is not sent on once more.
            heard.take(now)
                && seen.hear(joined.link, joined.group, payload, now)
                && link.is_some_and(|link| link.has(source.ip()) && !senders.are(source, |ip| link.has(ip)))
        };
        if !carries {
            return None;
        }
        if let Some(broker) = self.broker.get() {
            broker.heard(self.instance, source, joined.group, payload);
        }
        let group = joined.group.into();
        let announce = || Announcement::of_group(source, group, self.instance, Manner::default());
        self.settings.carries_to_peers().then(announce)
    }

    /// Returns whether this proxy has that mark itself.
    pub(crate) fn is(&self, instance: ProxyInstance) -> bool {
        self.instance == instance
    }

    /// Sends on what a source behind another proxy has sent to a group, to each link but its own.
    pub(crate) fn send_on(
        &self,
        instance: ProxyInstance,
        source: SocketAddr,
        group: SocketAddr,
        payload: &[u8],
    ) {
        let now = Instant::now();
        let mut state = self.lock();
        let State { links, seen, senders, .. } = &mut *state;
        for link in &*links {
            // An address of one link means nothing on others, so it tells nothing.
            let is_from_there = link.has(source.ip()) && !is_of_a_link(source.ip());
            if !is_from_there && seen.send(link.index, instance, group, payload, now) {
                senders.send(link, source, group, payload);
            }
        }
    }

    fn look(&self) {
        let links = LocalLink::list(&self.settings.interfaces);
        let mut state = self.lock();
        if let Ok(links) = links {
            state.links = links;
        }
        state.senders.close_idle(Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_of_a_link(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}
