//! The kernel's TCP behind the interface: each program becomes a stranger who connects to a socket of ours. Only
//! addresses and ports change, so segments stay as large as they are.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use super::addresses::Addresses;
use super::device::Device;
use super::nat::Nat;
use super::packet::{Ends, Head, readdress};
use super::parts::Mappings;
use super::virtio::{LENGTH, Undone};
use crate::intercept::accept::{Accepted, accept};
use crate::intercept::kernel::{Gate, KernelError, Pair};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1_024;

/// The kernel's TCP.
#[derive(Debug)]
pub(super) struct KernelTcp {
    device: Arc<Device>,
    addresses: Addresses,
    /// Where each family listens.
    ports: [Option<u16>; 2],
    listeners: Vec<TcpListener>,
    nats: [Mutex<Nat>; 2],
}

impl KernelTcp {
    /// Listens on the interface.
    pub(super) fn listen(
        device: Arc<Device>,
        addresses: Addresses,
        has_ipv6: bool,
    ) -> Result<Arc<Self>, KernelError> {
        let failed = KernelError::system("listening on the TUN interface failed");
        let families = [true, false].into_iter().take(1 + usize::from(has_ipv6));
        let listeners = families.map(|is_v4| listen(addresses.own(is_v4), device.name()));
        let listeners = listeners.collect::<io::Result<_>>().map_err(&failed)?;
        Self::of(device, addresses, listeners, Default::default()).map_err(failed)
    }

    /// Goes on with the listeners and connections of another process.
    pub(super) fn of(
        device: Arc<Device>,
        addresses: Addresses,
        listeners: Vec<TcpListener>,
        [v4, v6]: Mappings,
    ) -> io::Result<Arc<Self>> {
        let mut ports = [None; 2];
        for listener in &listeners {
            let address = listener.local_addr()?;
            ports[usize::from(address.is_ipv6())] = Some(address.port());
        }
        let nats = [v4, v6].map(|noted| Mutex::new(Nat::resumed(noted, Instant::now())));
        Ok(Arc::new(Self { device, addresses, ports, listeners, nats }))
    }

    /// Where connections are accepted.
    pub(super) fn listeners(&self) -> &[TcpListener] {
        &self.listeners
    }

    /// All connections, for another process.
    pub(super) fn mappings(&self) -> Mappings {
        [true, false].map(|is_v4| self.nat(is_v4).noted())
    }

    /// A connection to this stranger's end goes on. None: it is not one of ours.
    pub(super) fn claim(self: &Arc<Self>, from: SocketAddr) -> Option<Claim> {
        let (id, is_v4) = (self.addresses.id(from)?, from.is_ipv4());
        self.nat(is_v4).on_accepted(id)?;
        Some(Claim { tcp: Arc::clone(self), id, is_v4 })
    }

    /// Takes a segment, with the header in front, if it belongs to a connection. Returns whether it does.
    pub(super) fn on_segment(&self, buffer: &mut [u8], head: &Head, ends: Ends) -> bool {
        let (is_v4, now) = (ends.source.is_ipv4(), Instant::now());
        let Some(own) = self.own(is_v4) else { return false };
        if ends.source == own {
            // An answer of the kernel. Nobody waits for one to a stranger that is unknown.
            let id = self.addresses.id(ends.destination);
            if let Some(pair) = id.and_then(|id| self.nat(is_v4).on_answer(id, now)) {
                self.pass(buffer, head, Ends { source: pair.target, destination: pair.program });
            }
            return true;
        }
        let pair = Pair { program: ends.source, target: ends.destination };
        let Some(id) = self.nat(is_v4).on_segment(&pair, now) else { return false };
        self.pass(buffer, head, Ends { source: self.addresses.stranger(id, is_v4), destination: own });
        true
    }

    /// Hands a SYN back to the kernel, with the header in front. `is_repeated`: it may have come before.
    pub(super) fn hand_back(&self, mut buffer: Vec<u8>, pair: Pair, is_repeated: bool) {
        let is_v4 = pair.program.is_ipv4();
        let (Some(own), Some(head)) = (self.own(is_v4), buffer.get(LENGTH..).and_then(Head::parse)) else {
            return;
        };
        let id = self.nat(is_v4).add(pair, is_repeated, Instant::now());
        if let Some(id) = id {
            let source = self.addresses.stranger(id, is_v4);
            self.pass(&mut buffer, &head, Ends { source, destination: own });
        }
    }

    /// Accepts connections, for ever.
    pub(super) async fn accept(self: Arc<Self>, listener: tokio::net::TcpListener, gate: Arc<Gate>) {
        let ingress = gate.ingress().clone();
        accept(listener, ingress.places(), ingress.flows().over(), move |Accepted { tcp, from, .. }| {
            let (this, gate) = (Arc::clone(&self), Arc::clone(&gate));
            async move {
                // A program that has forgotten the connection, or somebody who forged it.
                let Some(claim) = this.claim(from) else { return };
                let Some(pair) = this.nat(claim.is_v4).on_accepted(claim.id) else { return };
                gate.serve(pair, tcp).await;
            }
        })
        .await;
    }

    /// Forgets what has had its time.
    pub(super) fn expire(&self) {
        for is_v4 in [true, false] {
            self.nat(is_v4).expire(Instant::now());
        }
    }

    fn pass(&self, buffer: &mut [u8], head: &Head, to: Ends) {
        let is_partial = Undone::parse(buffer).is_some_and(|(undone, _)| undone.is_partial);
        if readdress(&mut buffer[LENGTH..], head, to, is_partial) {
            self.device.write(buffer);
        }
    }

    fn own(&self, is_v4: bool) -> Option<SocketAddr> {
        let port = self.ports[usize::from(!is_v4)]?;
        Some(SocketAddr::new(self.addresses.own(is_v4), port))
    }

    fn nat(&self, is_v4: bool) -> MutexGuard<'_, Nat> {
        self.nats[usize::from(!is_v4)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is served. However that ends, its mapping gets its end when this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    tcp: Arc<KernelTcp>,
    id: u32,
    is_v4: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.tcp.nat(self.is_v4).on_closed(self.id, Instant::now());
    }
}

/// Opens a socket that only what comes from the interface reaches.
fn listen(ip: IpAddr, device: &str) -> io::Result<TcpListener> {
    let address = SocketAddr::new(ip, 0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind_device(Some(device.as_bytes()))?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
