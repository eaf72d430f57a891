//! Following the host's networks: connections use addresses as they come and go.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use whimbrel_net::{AddressWatch, HostAddress};
use whimbrel_proto::{LocalAddress, Side};

use crate::endpoint_shared::EndpointShared;
use crate::error::ConnectError;
use crate::local_socket::LocalSocket;
use crate::locals::{self, Local, Locals, Paths, Peer};
use crate::receive::{Door, receive};
use crate::shared::Shared;

impl EndpointShared {
    /// Returns this host's addresses. The first call starts to watch them for changes.
    pub(crate) fn host(self: &Arc<Self>) -> Arc<[HostAddress]> {
        self.networks.host(|| {
            // Starts watching before the first look, so that no change is missed in between.
            let watch = AddressWatch::new();
            self.networks.look();
            tokio::spawn(follow(Arc::downgrade(self), watch)).abort_handle()
        })
    }

    /// Returns the socket for an address of this host.
    pub(crate) fn local_socket(self: &Arc<Self>, local: &Local) -> std::io::Result<Arc<LocalSocket>> {
        self.networks.sockets.get(local, self.config.mark, |socket| {
            let door = Door { socket, home: 0, accept: None };
            tokio::spawn(receive(Arc::clone(self), door)).abort_handle()
        })
    }

    fn is_bound_to_one(&self) -> bool {
        self.socket().local_addr().is_ok_and(|bound| !bound.ip().is_unspecified())
    }

    /// Returns the remote addresses that can be reached, and the local side of a connection to any of them.
    pub(crate) fn locals_of_any(
        self: &Arc<Self>,
        remotes: &[SocketAddr],
    ) -> Result<(Vec<SocketAddr>, Option<Box<Locals>>), ConnectError> {
        let (mut reached, mut all, mut first_error) = (Vec::new(), None, None);
        for remote in remotes {
            match (self.locals_of_client(&self.config.paths, *remote), &mut all) {
                (Ok(locals), _) if reached.is_empty() => all = locals,
                (Ok(Some(locals)), Some(all)) => all.begin_also(*locals),
                (Ok(_), _) => {}
                (Err(error), _) => {
                    first_error.get_or_insert(error);
                    continue;
                }
            }
            reached.push(*remote);
        }
        match first_error {
            Some(error) if reached.is_empty() => Err(error),
            _ => Ok((reached, all)),
        }
    }

    /// Returns the local side of a new connection to `remote`. None: the endpoint's own socket is enough.
    pub(crate) fn locals_of_client(
        self: &Arc<Self>,
        paths: &Paths,
        remote: SocketAddr,
    ) -> Result<Option<Box<Locals>>, ConnectError> {
        let follows = *paths == Paths::Auto && !remote.ip().is_loopback() && !self.is_bound_to_one();
        if !follows && !matches!(paths, Paths::Only(_)) {
            return Ok(None);
        }
        let host = self.host();
        let peer = Peer::new(remote, &host).with_source();
        if follows && peer.near {
            return Ok(None);
        }
        let home = self.home(paths, peer, &host);
        if home.is_none() && !follows {
            return Err(ConnectError::NoPath(remote));
        }
        let mut locals = Box::new(Locals::new(paths.clone()));
        if let Some(home) = home {
            locals.begin_from(home, remote);
        }
        Ok(Some(locals))
    }

    /// Returns the socket to begin with. None: none of the addresses leads there, so the endpoint's own socket has to
    /// find a way.
    fn home(self: &Arc<Self>, paths: &Paths, peer: Peer, host: &[HostAddress]) -> Option<Arc<LocalSocket>> {
        let locals = locals::of_client(paths, peer, host);
        let fits = |local: &&Local| {
            let ip = local.path.address;
            let by_route = *paths != Paths::Auto || Some(ip) == peer.source;
            by_route && ip.is_ipv4() == peer.remote.is_ipv4()
        };
        locals.iter().filter(fits).find_map(|local| self.local_socket(local).ok())
    }

    /// Returns the local side of a connection accepted from `remote`.
    pub(crate) fn locals_of_server(&self, remote: SocketAddr) -> Option<Box<Locals>> {
        let paths = &self.config.paths;
        let announces = match paths {
            Paths::Single => false,
            Paths::Auto => !remote.ip().is_loopback(),
            Paths::Only(_) => true,
        };
        announces.then(|| Box::new(Locals::new(paths.clone())))
    }
}

/// Makes every connection look at the host's addresses again whenever they change.
async fn follow(endpoint: std::sync::Weak<EndpointShared>, mut watch: AddressWatch) {
    loop {
        watch.changed().await;
        let Some(endpoint) = endpoint.upgrade() else { return };
        endpoint.networks.look();
        for connection in endpoint.all() {
            connection.networks_changed();
        }
    }
}

/// The sockets and addresses that a connection is to use.
struct Plan {
    sockets: Vec<Arc<LocalSocket>>,
    /// The socket to begin from, and the address to connect to.
    home: Option<(Arc<LocalSocket>, SocketAddr)>,
    announced: Vec<LocalAddress>,
}

impl Shared {
    /// Applies the host's current addresses to the connection. Sockets are opened without the lock.
    pub(crate) fn roam(&self) {
        let (paths, by_hand, side, connected, remote) = {
            let state = self.lock();
            let Some(locals) = &state.locals else { return };
            let connection = &state.connection;
            if connection.is_closed() || locals.paths == Paths::Single {
                return;
            }
            let remote = connection.remote();
            (locals.paths.clone(), locals.by_hand.clone(), connection.side(), state.connected, remote)
        };
        let host = self.endpoint.host();
        let peer = Peer::new(remote, &host);
        let plan = match side {
            Side::Server => self.server_plan(&paths, peer, &host),
            Side::Client => self.client_plan(&paths, &by_hand, peer.with_source(), &host),
        };
        self.carry_out(plan, connected);
    }

    fn server_plan(&self, paths: &Paths, peer: Peer, host: &[HostAddress]) -> Plan {
        let bound = self.endpoint.socket().local_addr();
        let announced =
            bound.map_or_else(|_| Vec::new(), |bound| locals::of_server(paths, bound, peer, host));
        Plan { sockets: Vec::new(), home: None, announced }
    }

    fn client_plan(
        &self,
        paths: &Paths,
        by_hand: &[locals::LocalPath],
        peer: Peer,
        host: &[HostAddress],
    ) -> Plan {
        let mut wanted = locals::of_client(paths, peer, host);
        for path in by_hand {
            if !wanted.iter().any(|local| local.path.address == path.address) {
                wanted.push(locals::local(*path, peer, host));
            }
        }
        let mut plan = Plan { sockets: Vec::new(), home: None, announced: Vec::new() };
        for local in &wanted {
            // An address without a socket has just disappeared. It is left out, which is announced, too.
            let Ok(socket) = self.endpoint.local_socket(local) else { continue };
            plan.announced.push(locals::announced(&local.path, socket.address().port()));
            if plan.home.is_none() && local.path.address.is_ipv4() == peer.remote.is_ipv4() {
                plan.home = Some((Arc::clone(&socket), peer.remote));
            }
            plan.sockets.push(socket);
        }
        plan
    }

    fn carry_out(&self, plan: Plan, connected: bool) {
        let mut state = self.lock();
        let now = self.clock.now();
        let state = &mut *state;
        let Some(locals) = &mut state.locals else { return };
        let in_use: Vec<Option<IpAddr>> = if connected {
            state.connection.stats(now).paths.iter().map(|path| path.local).collect()
        } else {
            Vec::new()
        };
        let wanted: Vec<IpAddr> = plan.announced.iter().map(|local| local.address.ip()).collect();
        locals.keep(|ip| wanted.contains(&ip) || in_use.contains(&Some(ip)));
        for socket in plan.sockets {
            locals.add(socket);
        }
        if !connected {
            // The handshake goes on from an address that leads there now.
            if let Some((socket, remote)) = plan.home {
                locals.begin_from(socket, remote);
            }
            return;
        }
        state.connection.set_local_addresses(now, &plan.announced);
        state.connection.handle_link_up(now);
    }
}
