//! The relay's clients. Each has an upstream socket of its own, as behind a NAT.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use whimbrel_net::{BareSocket, SocketOptions};
use whimbrel_proto::Time;

/// Identifies a client as long as it is known; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClientId(pub(super) u64);

/// An address that talks to the relay.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) addr: SocketAddr,
    /// The relay's address that the client talks to.
    pub(super) local: Option<IpAddr>,
    pub(super) upstream: BareSocket,
    heard: Time,
}

/// All clients. When there are as many as allowed, a new one replaces the one that was silent longest.
#[derive(Debug)]
pub(super) struct Clients {
    known: BTreeMap<ClientId, Client>,
    ids: HashMap<SocketAddr, ClientId>,
    max: usize,
    server: SocketAddr,
    options: SocketOptions,
    accepted: u64,
}

impl Clients {
    pub(super) fn new(max: usize, server: SocketAddr, options: SocketOptions) -> Self {
        Self { known: BTreeMap::new(), ids: HashMap::new(), max: max.max(1), server, options, accepted: 0 }
    }

    /// The client at `addr`, if known. Records that it was heard from.
    pub(super) fn heard(&mut self, addr: SocketAddr, local: Option<IpAddr>, now: Time) -> Option<ClientId> {
        let id = *self.ids.get(&addr)?;
        let client = self.known.get_mut(&id)?;
        (client.heard, client.local) = (now, local);
        Some(id)
    }

    /// Adds a new client.
    pub(super) fn accept(
        &mut self,
        addr: SocketAddr,
        local: Option<IpAddr>,
        now: Time,
    ) -> io::Result<ClientId> {
        let upstream = self.upstream()?;
        if self.known.len() >= self.max {
            self.forget_the_longest_silent();
        }
        let id = ClientId(self.accepted);
        self.accepted += 1;
        self.ids.insert(addr, id);
        self.known.insert(id, Client { addr, local, upstream, heard: now });
        Ok(id)
    }

    /// The client with that id, unless it has been forgotten.
    pub(super) fn client(&self, id: ClientId) -> Option<&Client> {
        self.known.get(&id)
    }

    /// All clients, in the order in which they appeared.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.known.iter().map(|(id, client)| (*id, client))
    }

    /// The number of clients so far.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Gives every client a new upstream port and closes the old one, like a NAT that forgot its mappings.
    pub(super) fn rebind(&mut self) -> io::Result<()> {
        for id in self.known.keys().copied().collect::<Vec<_>>() {
            let upstream = self.upstream()?;
            if let Some(client) = self.known.get_mut(&id) {
                client.upstream = upstream;
            }
        }
        Ok(())
    }

    fn upstream(&self) -> io::Result<BareSocket> {
        let any: IpAddr = match self.server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        BareSocket::bind((any, 0).into(), &self.options)
    }

    fn forget_the_longest_silent(&mut self) {
        let silent = self.known.iter().min_by_key(|(_, client)| client.heard).map(|(id, _)| *id);
        if let Some(client) = silent.and_then(|id| self.known.remove(&id)) {
            self.ids.remove(&client.addr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    #[test]
    fn a_full_table_forgets_the_longest_silent() {
        let mut clients = Clients::new(2, addr(9), SocketOptions::default());
        let now = Time::from_nanos;
        let first = clients.accept(addr(1), None, now(1)).unwrap();
        let second = clients.accept(addr(2), None, now(2)).unwrap();
        assert_eq!(clients.heard(addr(1), None, now(3)), Some(first));
        let third = clients.accept(addr(3), None, now(4)).unwrap();
        assert_eq!(clients.heard(addr(2), None, now(5)), None);
        assert!(clients.client(second).is_none());
        assert_eq!(clients.iter().map(|(id, _)| id).collect::<Vec<_>>(), [first, third]);
        assert_eq!(clients.accepted(), 3);
    }

    #[test]
    fn rebinding_changes_every_upstream_port() {
        let mut clients = Clients::new(8, addr(9), SocketOptions::default());
        let ports = |clients: &Clients| -> Vec<u16> {
            clients.iter().map(|(_, client)| client.upstream.local_addr().unwrap().port()).collect()
        };
        for port in 1..4 {
            clients.accept(addr(port), None, Time::ZERO).unwrap();
        }
        let before = ports(&clients);
        clients.rebind().unwrap();
        assert!(ports(&clients).iter().zip(&before).all(|(after, before)| after != before));
    }
}
