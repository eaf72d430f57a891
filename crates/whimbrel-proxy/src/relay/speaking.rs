//! Speaking for programs of a peer, with their addresses.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::far_socket::FarSocket;
use crate::policy::Permits;

/// The sockets for datagrams in the names of a peer's programs. A program has one, whichever of the peer's sessions it uses.
#[derive(Debug, Default)]
pub(super) struct Spoken(Mutex<HashMap<SocketAddr, Weak<FarSocket>>>);

impl Spoken {
    /// Returns the socket of a program, if there is one.
    pub(super) fn of(&self, program: SocketAddr) -> Option<Arc<FarSocket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&program)?.upgrade()
    }

    /// Remembers the socket of a program.
    pub(super) fn add(&self, program: SocketAddr, socket: &Arc<FarSocket>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // No more than a peer's programs are left.
        all.retain(|_, socket| socket.strong_count() > 0);
        all.insert(program, Arc::downgrade(socket));
    }
}

/// Returns the address in whose name this end speaks for a program to a target, if the peer is permitted to have it do so.
/// None: in its own.
pub(super) fn speaks_as(
    permits: &Permits,
    program: Option<SocketAddr>,
    target: IpAddr,
) -> Option<SocketAddr> {
    let program = program.map(|program| SocketAddr::new(program.ip().to_canonical(), program.port()))?;
    let ip = program.ip();
    let may = ip.is_ipv4() == target.is_ipv4() && permits.speaks_for(ip);
    // Nobody else speaks for this host.
    (may && !is_own(ip)).then_some(program)
}

/// Whether an address is this host's. One that cannot be told is.
fn is_own(ip: IpAddr) -> bool {
    whimbrel_net::host_addresses().map_or(true, |own| own.iter().any(|own| own.ip == ip))
}
