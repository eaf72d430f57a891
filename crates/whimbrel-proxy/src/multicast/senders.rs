//! The sockets that send to groups, in the name of whoever has sent elsewhere.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::links::LocalLink;
use super::sockets::{scoped, sender};
use crate::policy::is_special;
use crate::sockets::Mark;

/// The most sockets. Another one closes the one that was quiet for the longest time.
const MOST: usize = 128;
/// After this time without a datagram a socket is closed.
const IDLE: Duration = Duration::from_secs(60);

/// A link, a family, and in whose name a socket sends: in ours without a source.
type SenderKey = (u32, bool, Option<SocketAddr>);

/// The sockets.
#[derive(Debug)]
pub(super) struct GroupSenders {
    ttl: u8,
    mark: Mark,
    /// Whether this process may send in the name of others. It is asked once.
    may: bool,
    open: HashMap<SenderKey, (UdpSocket, Instant)>,
}

impl GroupSenders {
    /// Sockets with this TTL and mark: so far none.
    pub(super) fn new(ttl: u8, mark: Mark) -> Self {
        Self { ttl, mark, may: true, open: HashMap::new() }
    }

    /// Sends to a group on a link in the name of `source`, if this process may and that names a host everywhere, else in
    /// its own. What cannot be sent is lost.
    pub(super) fn send(&mut self, link: &LocalLink, source: SocketAddr, group: SocketAddr, payload: &[u8]) {
        let names_a_host = !is_special(source.ip()) && source.port() > 0;
        let named = Some(source).filter(|_| self.may && names_a_host);
        if !self.send_as(named, link, group, payload) && named.is_some() {
            self.send_as(None, link, group, payload);
        }
    }

    /// Returns whether an address and port are of a socket of ours.
    pub(super) fn are(&self, source: SocketAddr, is_own: impl Fn(IpAddr) -> bool) -> bool {
        let port = |socket: &UdpSocket| socket.local_addr().map(|address| address.port()).ok();
        let mut own = self.open.iter().filter(|((_, _, named), _)| named.is_none());
        own.any(|(_, (socket, _))| port(socket) == Some(source.port())) && is_own(source.ip())
    }

    /// Closes sockets that were quiet for a while.
    pub(super) fn close_idle(&mut self, now: Instant) {
        self.open.retain(|_, (_, used)| now.duration_since(*used) < IDLE);
    }

    /// Returns whether there is a socket for that.
    fn send_as(
        &mut self,
        source: Option<SocketAddr>,
        link: &LocalLink,
        group: SocketAddr,
        payload: &[u8],
    ) -> bool {
        let (key, now) = ((link.index, group.is_ipv4(), source), Instant::now());
        if !self.open.contains_key(&key) {
            if self.open.len() >= MOST {
                let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
                oldest.and_then(|oldest| self.open.remove(&oldest));
            }
            match sender(source, group.is_ipv4(), link, self.ttl, self.mark) {
                Ok(socket) => drop(self.open.insert(key, (socket, now))),
                Err(error) => {
                    // Without the right to, nobody has to try again.
                    self.may &= error.kind() != std::io::ErrorKind::PermissionDenied;
                    return false;
                }
            }
        }
        if let Some((socket, used)) = self.open.get_mut(&key) {
            *used = now;
            socket.send_to(payload, scoped(group, link)).ok();
        }
        true
    }
}
