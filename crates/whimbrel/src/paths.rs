//! The application's view of a connection's paths, and its control over them.

use std::io;
use std::net::{IpAddr, SocketAddr};

use whimbrel_proto::{PathId, PathStats, SetPrimaryError, Side};

use crate::error::PathError;
use crate::locals::{self, LocalPath, Locals, Paths, Peer};
use crate::mocket::Mocket;

impl Mocket {
    /// Returns every path with its state and statistics. [`Mocket::subscribe`] reports changes.
    pub fn paths(&self) -> Vec<PathStats> {
        self.stats().connection.paths
    }

    /// Uses these networks from now on, instead of those in the endpoint's configuration. This is for applications
    /// that know more, such as which network costs money at the moment. A client opens and closes paths accordingly;
    /// the accepting side announces its addresses.
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
    /// [`PathError::NotLocal`] or [`PathError::System`]: an address cannot be used, and nothing was changed. An
    /// address that disappears later is no error: it is used again when it is back.
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

    /// Opens another path from an address of this host to `remote`. Without a local address, packets leave from
    /// wherever the system sends. The path carries data once the other end has answered on it, which
    /// [`Event::PathUp`](crate::Event::PathUp) reports.
    ///
    /// # Errors
    /// The address does not belong to this host, no socket can be opened there, or the connection can open no further
    /// path now.
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

    /// Closes a path. Nothing more is sent on it. It closes once everything in flight has arrived or was sent another
    /// way.
    ///
    /// The last working path stays until another one works, and the accepting side cannot close any path. With
    /// [`Paths::Auto`], the path may be opened again when the host's networks change. It is also reopened when no
    /// other path works, until one does.
    pub fn close_path(&self, path: PathId) {
        let mut state = self.shared.lock();
        state.connection.close_path(self.shared.clock.now(), path);
        drop(state);
        self.shared.drive();
    }

    /// Makes a path the primary one: data goes there first from now on, in both directions, while it works. The peer
    /// is asked to do the same (SET-PRIMARY). If both ends choose, the latest choice counts.
    /// [`Event::PrimaryChanged`](crate::Event::PrimaryChanged) reports the change.
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

    /// Answers [`Event::PathCostAsked`](crate::Event::PathCostAsked) under
    /// [`CostPolicy::Ask`](crate::CostPolicy::Ask): whether the path may carry data. The answer can be changed at any
    /// time.
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
