//! Sockets bound to single addresses. A path that has to leave by a certain network needs one.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};

use tokio::task::AbortHandle;
use whimbrel_net::{SocketOptions, UdpSocket};

use crate::locals::Local;
use crate::lock::lock;

/// A socket bound to one address of this host, and the task that receives from it. Both end with the last connection
/// that uses them.
pub(crate) struct LocalSocket {
    address: SocketAddr,
    /// The index of the device that the socket is bound to. 0: none.
    index: u32,
    socket: Arc<UdpSocket>,
    receiving: AbortHandle,
}

impl LocalSocket {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn udp(&self) -> &UdpSocket {
        &self.socket
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

/// The sockets of an endpoint that are bound to single addresses, shared by its connections.
#[derive(Default)]
pub(crate) struct LocalSockets {
    open: Mutex<BTreeMap<IpAddr, Weak<LocalSocket>>>,
}

impl LocalSockets {
    /// Returns the socket for an address, with this mark. If it has to be opened, `receive` starts receiving on it.
    pub(crate) fn get(
        &self,
        local: &Local,
        mark: Option<u32>,
        receive: impl FnOnce(Arc<UdpSocket>) -> AbortHandle,
    ) -> io::Result<Arc<LocalSocket>> {
        let ip = local.path.address;
        let index = local.device.as_ref().map_or(0, |device| device.index);
        let mut open = lock(&self.open);
        open.retain(|_, socket| socket.strong_count() > 0);
        // A device that was unplugged and is back has another index, and sockets bound to the old one are dead.
        let known = open.get(&ip).and_then(Weak::upgrade).filter(|socket| socket.index == index);
        if let Some(socket) = known {
            return Ok(socket);
        }
        let options = SocketOptions::default();
        let address = SocketAddr::new(ip, 0);
        let socket = match &local.device {
            Some(device) => options.open_on(address, &device.device)?,
            None => options.open(address)?,
        };
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        mark.map_or(Ok(()), |mark| socket.set_mark(mark))?;
        let receiving = receive(Arc::clone(&socket));
        let socket = Arc::new(LocalSocket { address: socket.local_addr()?, index, socket, receiving });
        open.insert(ip, Arc::downgrade(&socket));
        Ok(socket)
    }
}
