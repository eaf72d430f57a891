//! What an application sees of its paths, and does with them.

use std::io;
use std::net::{IpAddr, SocketAddr};

use whimbrel_proto::{PathId, PathStats, SetPrimaryError, Side};

use crate::error::PathError;
use crate::locals::{self, LocalPath, Locals, Paths, Peer};
use crate::mocket::Mocket;

impl Mocket {
    /// Every path with its state and figures. [`Mocket::subscribe`] tells what happens to them.
    pub fn paths(&self) -> Vec<PathStats> {
        self.stats().connection.paths
    }

    /// Uses these networks from now on, in place of what the endpoint was set up with: for applications that know better, such as which network
    /// costs money at the moment. A client opens and closes paths accordingly; the side that was connected to announces.
    ///
    /// ```no_run
    /// # fn example(mocket: whimbrel::Mocket, wifi: std::net::IpAddr, mobile: std::net::IpAddr) -> Result<(), whimbrel::PathError> {
    /// use whimbrel::{LocalPath, Paths};
    ///
    /// // The mobile network is there when the other fails.
    /// mocket.set_paths(Paths::Only(vec![wifi.into(), LocalPath { standby: true, ..mobile.into() }]))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PathError::NotLocal`]: nothing was changed. An address that goes later is no error: it is used when it is back.
    pub fn set_paths(&self, paths: Paths) -> Result<(), PathError> {
        if let Paths::Only(list) = &paths {
            for path in list {
                check_local(path.address)?;
            }
        }
        let mut state = self.shared.lock();
        match &mut state.locals {
            Some(locals) => locals.paths = paths,
            none => *none = Some(Box::new(Locals::new(paths))),
        }
        drop(state);
        self.shared.roam_soon();
        Ok(())
    }

    /// Opens a path from an address of this host (none: wherever the system sends from) to `remote`, beside those there are. It carries data
    /// once the other end has answered there; [`Event::PathUp`](crate::Event::PathUp) tells.
    ///
    /// # Errors
    /// The address is not this host's, or the connection can have no further path now.
    pub fn open_path(&self, local: Option<IpAddr>, remote: SocketAddr) -> Result<PathId, PathError> {
        let socket = match local {
            Some(ip) => Some(self.socket_on(ip, remote)?),
            None => None,
        };
        let mut state = self.shared.lock();
        if state.connection.side() == Side::Client
            && let Some((path, socket)) = socket
        {
            let locals = state.locals.get_or_insert_with(|| Box::new(Locals::new(Paths::Single)));
            locals.add(socket);
            locals.by_hand.push(path);
        }
        let now = self.shared.clock.now();
        let opened = state.connection.open_path(now, local, remote);
        drop(state);
        self.shared.drive();
        Ok(opened?)
    }

    fn socket_on(
        &self,
        ip: IpAddr,
        remote: SocketAddr,
    ) -> Result<(LocalPath, std::sync::Arc<crate::local_socket::LocalSocket>), PathError> {
        let host = self.shared.endpoint.host();
        let local = locals::local(ip.into(), Peer::new(remote, &host), &host);
        let socket = self.shared.endpoint.local_socket(&local).map_err(|error| refused(ip, error))?;
        Ok((local.path, socket))
    }

    /// Gives a path up: nothing more goes there, and it is closed once what is under way has arrived, or goes another way. The last one
    /// that works stays until another does, and the side that was connected to gives none up. With [`Paths::Auto`] it may be opened again when the host's networks
    /// change, and is whenever no other works, until one does.
    pub fn close_path(&self, path: PathId) {
        let mut state = self.shared.lock();
        state.connection.close_path(self.shared.clock.now(), path);
        drop(state);
        self.shared.drive();
    }

    /// Has data go on this path first from now on, in both directions: the peer is asked to do the same (SET-PRIMARY). It is used while it
    /// works; of this end's wishes and the peer's the latest counts. [`Event::PrimaryChanged`](crate::Event::PrimaryChanged) tells.
    ///
    /// # Errors
    /// There is no such path, or the mocket is closing.
    pub fn set_primary(&self, path: PathId) -> Result<(), SetPrimaryError> {
        let mut state = self.shared.lock();
        let set = state.connection.set_primary(self.shared.clock.now(), path);
        drop(state);
        self.shared.drive();
        set
    }

    /// The answer to [`Event::PathCostAsked`](crate::Event::PathCostAsked) under [`CostPolicy::Ask`](crate::CostPolicy::Ask): whether the
    /// path may carry data. It may be changed at any time.
    pub fn allow_path(&self, path: PathId, allowed: bool) {
        let mut state = self.shared.lock();
        state.connection.allow_path(self.shared.clock.now(), path, allowed);
        drop(state);
        self.shared.drive();
    }
}

fn check_local(ip: IpAddr) -> Result<(), PathError> {
    let socket = std::net::UdpSocket::bind((ip, 0));
    socket.map(drop).map_err(|error| refused(ip, error))
}

fn refused(ip: IpAddr, error: io::Error) -> PathError {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => PathError::NotLocal(ip),
        _ => PathError::System(ip, error),
    }
}
