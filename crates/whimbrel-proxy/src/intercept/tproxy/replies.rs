//! Sockets that send replies in the name of whoever a program hears from: one for each port, which answers for every
//! address. So a reply may come from anywhere (endpoint-independent filtering, RFC 4787), without a socket a flow.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::sockets::{reply_socket, send_from};
use super::tun::Tun;
use crate::intercept::kernel::datagram;

/// The most sockets. Another one closes the one that was quiet for the longest time.
const MOST: usize = 1_024;
/// After this time without a reply a socket is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Below it, services of this host may start at any time, so no socket has such a port on every address.
const PRIVILEGED: u16 = 1_024;

/// The sockets.
#[derive(Debug)]
pub(super) struct ReplySockets {
    mark: u32,
    tun: Arc<Tun>,
    open: Mutex<HashMap<SocketAddr, (Arc<UdpSocket>, Instant)>>,
}

impl ReplySockets {
    /// Sockets that send with this mark: so far none.
    pub(super) fn new(mark: u32, tun: Arc<Tun>) -> Self {
        Self { mark, tun, open: Mutex::default() }
    }

    /// Goes on with sockets of another process.
    pub(super) fn resume(&self, sockets: impl IntoIterator<Item = (SocketAddr, OwnedFd)>) {
        let now = Instant::now();
        let sockets = sockets.into_iter().take(MOST);
        self.lock().extend(sockets.map(|(address, file)| (address, (Arc::new(file.into()), now))));
    }

    /// Returns the sockets that are open, for another process.
    pub(super) fn files(&self) -> Vec<(SocketAddr, OwnedFd)> {
        let open = self.lock();
        let file = |(address, (socket, _)): (&SocketAddr, &(Arc<UdpSocket>, Instant))| {
            Some((*address, socket.as_fd().try_clone_to_owned().ok()?))
        };
        open.iter().filter_map(file).collect()
    }

    /// Sends a reply in the name of `source`. What cannot be sent is lost, as on a link.
    pub(super) fn send(&self, payload: &[u8], source: SocketAddr, to: SocketAddr) {
        let socket = if source.port() < PRIVILEGED {
            self.socket(source)
        } else {
            // Another program may have the port.
            self.socket(every_address(source)).or_else(|_| self.socket(source))
        };
        match socket {
            Ok(socket) => drop(send_from(&*socket, payload, source.ip(), to)),
            // A program of this host has the port on every address, and does not share it.
            Err(_) => drop(datagram(source, to, payload).map(|packet| self.tun.write(&packet))),
        }
    }

    /// Closes sockets that were quiet for a while.
    pub(super) fn close_idle(&self) {
        self.lock().retain(|_, (_, used)| used.elapsed() < IDLE);
    }

    fn socket(&self, address: SocketAddr) -> io::Result<Arc<UdpSocket>> {
        let mut open = self.lock();
        if let Some((socket, used)) = open.get_mut(&address) {
            *used = Instant::now();
            return Ok(Arc::clone(socket));
        }
        if open.len() >= MOST {
            let oldest = open.iter().min_by_key(|(_, (_, used))| *used).map(|(address, _)| *address);
            oldest.and_then(|oldest| open.remove(&oldest));
        }
        let socket = Arc::new(reply_socket(address, self.mark)?);
        open.insert(address, (Arc::clone(&socket), Instant::now()));
        Ok(socket)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SocketAddr, (Arc<UdpSocket>, Instant)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn every_address(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, address.port())
}
