//! Multicast while it runs.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use whimbrel_pubsub::client::Client;

use super::dissemination::Dissemination;
use super::links::Link;
use super::seen::Seen;
use super::senders::Senders;
use super::settings::{MulticastError, MulticastSettings};
use super::sockets::join;
use crate::protocol::{Announcement, Instance, Manner};
use crate::relay::{Allowance, Mark, Peer, Roster};

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
    instance: Instance,
    state: Mutex<State>,
    /// Where groups go that go through a broker.
    broker: OnceLock<Dissemination>,
}

#[derive(Debug)]
struct State {
    links: Vec<Link>,
    seen: Seen,
    senders: Senders,
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
        let links = Link::list(&settings.interfaces)?;
        let is_there = |name: &&String| links.iter().any(|link| link.name == **name);
        if let Some(missing) = settings.interfaces.iter().find(|name| !is_there(name)) {
            return Err(MulticastError::NoInterface(missing.clone()));
        }
        let mut instance = [0; 16];
        aws_lc_rs::rand::fill(&mut instance).map_err(|_| std::io::Error::from(std::io::ErrorKind::Other))?;
        let state = State {
            links,
            seen: Seen::default(),
            senders: Senders::new(settings.ttl, mark),
            heard: Allowance::new(HEARD_PER_SECOND),
        };
        let (settings, state) = (settings.clone(), Mutex::new(state));
        Ok(Arc::new(Self { settings, instance: Instance(instance), state, broker: OnceLock::new() }))
    }

    /// Returns what carries groups to the peers of this roster, for ever.
    ///
    /// # Errors
    /// A group cannot be joined.
    pub(crate) fn carry(
        self: &Arc<Self>,
        roster: &Roster,
    ) -> Result<impl Future<Output = ()> + Send + use<>, MulticastError> {
        let mut all = Vec::new();
        for link in &self.lock().links {
            for group in &self.settings.groups {
                let joined = join(*group, link).and_then(UdpSocket::from_std);
                let interface = link.name.clone();
                let failed = |error| MulticastError::Join { group: *group, interface, error };
                all.push(Joined { socket: joined.map_err(failed)?, group: *group, link: link.index });
            }
        }
        let (this, roster) = (Arc::clone(self), roster.clone());
        Ok(async move {
            let (mut tasks, mut look) = (JoinSet::new(), interval(LOOK));
            for joined in all {
                tasks.spawn(Arc::clone(&this).hear(joined, roster.clone()));
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

    async fn hear(self: Arc<Self>, joined: Joined, roster: Roster) {
        let mut buffer = vec![0; LARGEST];
        loop {
            match joined.socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    // Messages between proxies have no scope of a link.
                    let from = SocketAddr::new(from.ip(), from.port());
                    self.on_heard(&joined, from, &buffer[..length], &roster);
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    fn on_heard(&self, joined: &Joined, source: SocketAddr, payload: &[u8], roster: &Roster) {
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
            return;
        }
        if let Some(broker) = self.broker.get() {
            broker.heard(self.instance, source, joined.group, payload);
        }
        if !self.settings.carries_to_peers() {
            return;
        }
        let manner = Manner::default();
        let announcement = Announcement::of_group(source, joined.group.into(), self.instance, manner);
        let (wanted, peers) = (&self.settings.peers, roster.now());
        let gets =
            |peer: &&Peer| wanted.is_empty() || wanted.iter().any(|name| **name == *peer.context().peer);
        for session in peers.all().map(|(_, peer)| peer).filter(gets).filter_map(Peer::session) {
            session.outgoing().send(&announcement, manner, Bytes::copy_from_slice(payload));
        }
    }

    /// Returns whether this proxy has that mark itself.
    pub(crate) fn is(&self, instance: Instance) -> bool {
        self.instance == instance
    }

    /// Sends on what a source behind another proxy has sent to a group, to each link but its own.
    pub(crate) fn send_on(&self, instance: Instance, source: SocketAddr, group: SocketAddr, payload: &[u8]) {
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
        let links = Link::list(&self.settings.interfaces);
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
