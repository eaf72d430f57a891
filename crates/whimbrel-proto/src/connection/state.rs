//! The connection's parts, and how it begins. Its methods are in the modules beside this file, one noun or verb each.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;

use super::control::control_queue::ControlQueue;
use super::event::EndpointEvent;
use super::handshake::early_keys::EarlyKeys;
use super::handshake::key_log::KeyLog;
use super::handshake::keys::KeyRing;
use super::handshake::opening::Opening;
use super::handshake::peer::Peer;
use super::handshake::pong::Pong;
use super::handshake::ticketing::Ticketing;
use super::lifecycle::close::Ending;
use super::lifecycle::farewell::Farewell;
use super::lifecycle::succession::Succession;
use super::observe::activity::Activity;
use super::observe::events::Events;
use super::observe::figures::Figures;
use super::observe::observer::Observer;
use super::packet::building::Building;
use super::packet::coding::Coding;
use super::paths::path::{Ends, Path};
use super::paths::path_set::Paths;
use super::paths::path_state::PathLifecycle;
use super::paths::steering::Steering;
use super::paths::supply::Supply;
use super::paths::validation::Challenges;
use crate::budget::Budgets;
use crate::config::TransportConfig;
use crate::session::{Session, SessionConfig};
use crate::{ConnectionId, PathId, Side, Time};

/// Everything that a new connection starts with.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) side: Side,
    pub(crate) config: Arc<TransportConfig>,
    /// The part of `config` for sessions, which they share.
    pub(crate) session: Arc<SessionConfig>,
    pub(crate) budgets: Budgets,
    pub(crate) remote: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    pub(crate) local_id: ConnectionId,
    pub(crate) remote_id: ConnectionId,
    /// Whether the client is given tickets.
    pub(crate) issues_tickets: bool,
    pub(crate) rng: ChaCha20Rng,
}

/// One connection: the keys and paths that carry a session now.
///
/// Call [`handle_datagram`](Self::handle_datagram), [`handle_timeout`](Self::handle_timeout) and commands first. Then
/// drain [`poll_transmit`](Self::poll_transmit), [`poll_endpoint_event`](Self::poll_endpoint_event) and
/// [`poll_event`](Self::poll_event), and sleep until [`poll_timeout`](Self::poll_timeout). Any input may change all of
/// them.
pub struct Connection {
    pub(super) side: Side,
    pub(super) config: Arc<TransportConfig>,
    pub(super) budgets: Budgets,
    pub(super) session: Session,
    pub(super) opening: Option<Box<Opening>>,
    pub(super) pong: Pong,
    pub(super) peer: Peer,
    pub(super) early_keys: EarlyKeys,
    pub(super) keys: Option<KeyRing>,
    pub(super) key_log: Option<Box<KeyLog>>,
    pub(super) tickets: Ticketing,
    pub(super) paths: Paths,
    pub(super) supply: Supply,
    pub(super) steering: Steering,
    pub(super) control: ControlQueue,
    pub(super) building: Building,
    pub(super) coding: Coding,
    pub(super) activity: Activity,
    pub(super) ending: Ending,
    pub(super) farewell: Farewell,
    pub(super) succession: Succession,
    pub(super) figures: Figures,
    /// Whoever looks on.
    pub(super) observer: Option<Box<Observer>>,
    pub(super) events: Events,
    pub(super) endpoint_events: VecDeque<EndpointEvent>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("local_id", &self.local_id())
            .field("peer_key", &self.peer_key())
            .field("remote", &self.remote())
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(now: Time, setup: Setup) -> Self {
        let Setup {
            side,
            config,
            session,
            budgets,
            remote,
            local,
            local_id,
            remote_id,
            issues_tickets,
            mut rng,
        } = setup;
        let mut observer = Observer::wanted(now, side, local_id, config.qlog);
        if let Some(observer) = &mut observer {
            observer.on_started(now, local, remote);
        }
        let ends = Ends { id: PathId::FIRST, remote, local, local_id, remote_id };
        let path = Path::new(now, ends, &config, PathLifecycle::proven());
        let mut session = Session::new(side, session).drawing_on(&budgets);
        if observer.is_some() {
            // From now on it notes what happens.
            drop(session.take_notes());
        }
        Self {
            side,
            session,
            budgets,
            opening: None,
            pong: Pong::new(now),
            peer: Peer::default(),
            early_keys: EarlyKeys::default(),
            keys: None,
            key_log: config.key_log.then(Box::default),
            tickets: Ticketing::new(issues_tickets),
            paths: Paths::new(path),
            supply: Supply::new(Challenges::new(&mut rng)),
            steering: Steering::default(),
            control: ControlQueue::default(),
            building: Building::default(),
            coding: Coding::default(),
            activity: Activity::new(now, config.idle_timeout),
            ending: Ending::default(),
            farewell: Farewell::default(),
            succession: Succession::default(),
            figures: Figures::default(),
            observer,
            events: Events::default(),
            endpoint_events: VecDeque::new(),
            config,
        }
    }
}
