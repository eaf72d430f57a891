//! TCP in this process, for hosts whose kernel cannot be used: a machine for each connection, which nobody else waits for.

mod connection;
mod machine;
mod program;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use connection::Connection;
use machine::Machine;
use program::UserspaceProgram;

use super::device::Device;
use super::packet::Head;
use super::virtio::{LENGTH, Undone};
use crate::intercept::kernel::{Gate, Pair};
use crate::relay::{Socket, Userspace};

/// The most connections, each with buffers of 256 KiB, and the most of one host. SYNs of further ones are dropped, so
/// programs try again.
const MOST: usize = 1_024;
const MOST_OF_HOST: usize = MOST / 2;
/// How long a program may take to answer.
const UNCLAIMED: Duration = Duration::from_secs(10);

/// All connections.
#[derive(Debug)]
pub(in crate::intercept::tun) struct UserspaceTcp {
    device: Arc<Device>,
    gate: Arc<Gate>,
    all: Mutex<HashMap<Pair, Arc<Connection>>>,
}

impl UserspaceTcp {
    /// So far there are none.
    pub(in crate::intercept::tun) fn new(device: Arc<Device>, gate: Arc<Gate>) -> Arc<Self> {
        Arc::new(Self { device, gate, all: Mutex::default() })
    }

    /// Takes a segment, with the header in front, if it belongs to a connection. Returns whether it does.
    pub(in crate::intercept::tun) fn on_segment(&self, buffer: &[u8], head: &Head, pair: Pair) -> bool {
        let connection = self.lock().get(&pair).cloned();
        let Some(connection) = connection else { return false };
        let Some((undone, packet)) = Undone::parse(buffer) else { return true };
        if undone.is_trusted || head.is_intact(&packet[head.payload..head.end]) {
            connection.on_packet(packet[..head.end].to_vec());
        }
        true
    }

    /// Answers a SYN, with the header in front. `is_repeated`: it may have come before.
    pub(in crate::intercept::tun) fn hand_back(self: &Arc<Self>, syn: &[u8], pair: Pair, is_repeated: bool) {
        let Some(packet) = syn.get(LENGTH..) else { return };
        let known = self.lock().get(&pair).cloned();
        if let Some(known) = known.filter(|known| is_repeated && !known.is_over()) {
            return known.on_packet(packet.to_vec());
        }
        let Some(connection) = self.add(pair) else { return };
        connection.on_packet(packet.to_vec());
        tokio::spawn(tend(Arc::downgrade(self), Arc::clone(&connection), pair));
        let gate = Arc::clone(&self.gate);
        self.gate.ingress().flows().over().spawn(async move {
            let program = UserspaceProgram::new(Arc::clone(&connection));
            // One whose program never answers is reset when it is dropped.
            if let Ok(true) = tokio::time::timeout(UNCLAIMED, connection.established()).await {
                let program: Box<dyn Userspace> = Box::new(program);
                gate.serve(pair, Socket::from(program)).await;
            }
        });
    }

    /// Adds a connection, in place of one of the same ends. None: there are too many.
    fn add(&self, pair: Pair) -> Option<Arc<Connection>> {
        let mut all = self.lock();
        let of_host = |ip: IpAddr| all.keys().filter(|known| known.program.ip() == ip).count();
        if !all.contains_key(&pair) && (all.len() >= MOST || of_host(pair.program.ip()) >= MOST_OF_HOST) {
            return None;
        }
        let connection = Arc::new(Connection::new(Machine::listen(pair.target)?, Arc::clone(&self.device)));
        if let Some(former) = all.insert(pair, Arc::clone(&connection)) {
            former.abort();
        }
        Some(connection)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pair, Arc<Connection>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does what is due for a connection until it is over, and takes it out.
async fn tend(tcp: Weak<UserspaceTcp>, connection: Arc<Connection>, pair: Pair) {
    connection.tend().await;
    if let Some(tcp) = tcp.upgrade() {
        let mut all = tcp.lock();
        if all.get(&pair).is_some_and(|known| Arc::ptr_eq(known, &connection)) {
            all.remove(&pair);
        }
    }
}
