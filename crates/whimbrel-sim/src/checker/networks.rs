//! Changes of networks during a run: their links, addresses and paths.

use std::net::SocketAddr;
use std::time::Duration;

use whimbrel_proto::SetPrimaryError;
use whimbrel_proto::{LocalAddress, PathId, PathState, PathStats};

use super::draft::Draft;
use super::operation::NetworkChange;
use super::run::Run;
use crate::pair::End;
use crate::world::SERVER;
use whimbrel_link::LinkConfig;

/// A link without faults, on which everything comes to rest.
const GOOD: &str = "rate=50mbit,delay=10ms,queue=200ms";

impl Run {
    /// Adds the second network, once.
    pub(super) fn add_network(&mut self) {
        if !self.second {
            self.second = true;
            let link: LinkConfig = GOOD.parse().expect("it is well written");
            self.pair.world.add_network(self.pair.client, link.clone(), link);
            self.announce();
        }
    }

    pub(super) fn change_network(&mut self, change: NetworkChange) {
        match change {
            NetworkChange::Relink { link } => self.relink_second(&link, &link),
            NetworkChange::Dark { up, down } => {
                let way = |dark: bool| if dark { "loss=100%" } else { GOOD };
                self.relink_second(way(up), way(down));
            }
            NetworkChange::Leave { end } => {
                let node = self.pair.node(end);
                self.pair.world.take_down(node, 1);
                self.announce();
            }
            NetworkChange::Return { end } => {
                let node = self.pair.node(end);
                self.pair.world.set_up(node, 1);
                self.announce();
            }
            NetworkChange::Close { end, nth } => {
                let (now, paths) = (self.pair.now(), self.pair.stats(end).paths);
                let id = paths[nth as usize % paths.len()].id;
                self.pair.connection(end).close_path(now, id);
            }
            NetworkChange::Value { end, network, cost, standby } => {
                self.values.get_mut(&end).expect("both ends have them")[network] = (cost, standby);
                self.announce();
            }
            NetworkChange::Primary { end, nth } => {
                let (now, paths) = (self.pair.now(), self.pair.stats(end).paths);
                let id = paths[nth as usize % paths.len()].id;
                let connection = self.pair.connection(end);
                let set = connection.set_primary(now, id);
                // A late copy of SUSPEND may arrive after the peer is back, and before the peer has shown that it is.
                let waits = set == Err(SetPrimaryError::Closing) && connection.is_waiting();
                assert!(set.is_ok() || waits, "it is there: {set:?}");
            }
        }
    }

    /// Gives the server another address on the first network, and waits until the client knows it. If both moved at a
    /// time, neither would find the other.
    pub(super) fn rebind_server(&mut self) {
        self.proven();
        let [client, server] = [self.pair.client, SERVER].map(|node| self.pair.world.address(node));
        self.send(End::Client, &Draft::plain(100));
        self.pass(Duration::from_secs(2));
        // Of two paths between the same addresses, one may be dead while only one end knows it.
        let there = self.works(End::Server, client);
        if let Some(path) = self.works(End::Client, server).into_iter().find(|path| there.contains(path)) {
            self.pair.world.rebind(SERVER);
            self.send(End::Server, &Draft::plain(100));
            self.follow(path, server);
        }
        let link = self.link.clone();
        self.pair.relink(&link);
    }

    /// The paths of `at` to this address that work, as far as it knows.
    fn works(&mut self, at: End, remote: SocketAddr) -> Vec<PathId> {
        let works = |path: &&PathStats| matches!(path.state, PathState::Active | PathState::Standby);
        let paths = self.pair.stats(at).paths;
        paths.iter().filter(works).filter(|path| path.remote == remote).map(|path| path.id).collect()
    }

    /// Waits until the client no longer sends to the old address on this path. By then it has heard from the server,
    /// at the latest by a keep-alive.
    fn follow(&mut self, id: PathId, old: SocketAddr) {
        let until = self.pair.now() + self.config.keep_alive.unwrap_or_default() * 2;
        while self.pair.stats(End::Client).paths.iter().any(|path| path.id == id && path.remote == old) {
            assert!(self.pair.now() < until, "the client has not followed: {:?}", self.state());
            self.pass(Duration::from_millis(50));
        }
    }

    pub(super) fn announce(&mut self) {
        for end in End::BOTH {
            if let Some((node, handle)) = self.pair.place(end)
                && self.pair.try_connection(end).is_some()
            {
                let values = self.values[&end];
                self.pair.world.announce_as(node, handle, |network, address| {
                    let (cost, standby) = values[network];
                    LocalAddress { address, cost, standby }
                });
            }
        }
    }

    pub(super) fn relink_second(&mut self, up: &str, down: &str) {
        let client = self.pair.client;
        for (from, to, link) in [(client, SERVER, up), (SERVER, client, down)] {
            let link = link.parse().expect("links are drawn well written");
            self.pair.world.link_over(1, from, to).reconfigure(link);
        }
    }

    pub(super) fn restore_links(&mut self) {
        self.pair.relink(GOOD);
        if self.second {
            self.relink_second(GOOD, GOOD);
        }
    }

    /// Makes every link good, and gives everyone every address.
    pub(super) fn restore_networks(&mut self) {
        self.restore_links();
        if self.second {
            for node in [self.pair.client, SERVER] {
                self.pair.world.set_up(node, 1);
            }
            self.announce();
        }
    }
}
