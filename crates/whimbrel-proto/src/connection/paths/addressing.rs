//! Following the addresses of both ends.

use std::net::IpAddr;

use super::addresses::{Change, LocalAddress, read_add};
use super::path_set::At;
use crate::connection::event::Event;
use crate::connection::state::Connection;
use crate::wire::Reader;
use crate::{PeerMisbehaved, Time};

impl Connection {
    /// Sets all addresses of this host. Call it whenever they change: the peer is told, and a client opens and closes
    /// paths accordingly. A path whose address is gone is kept until another works, since the address may come back.
    pub fn set_local_addresses(&mut self, now: Time, addresses: &[LocalAddress]) {
        let detached = self.ending.is_waiting();
        // A connection that is closing must still deliver what is queued, wherever the host moves meanwhile.
        if self.ending.is_over() {
            return;
        }
        let (control, events) = (&mut self.control, &mut self.events);
        let mut observer = self.observer.as_deref_mut();
        self.supply.addresses.set_ours(addresses, |change, block| {
            control.notice(block);
            if let Some(observer) = &mut observer {
                observer.on_address(now, "ours", change.word(), change.address());
            }
            events.push_back(match change {
                Change::Added(address) => Event::LocalAddressAdded(address),
                Change::Removed(address) => Event::LocalAddressRemoved(address),
            });
        });
        if detached {
            self.dial_now(now);
            return;
        }
        for at in self.paths.all() {
            let path = &mut self.paths[at];
            if let Some(settings) = self.supply.addresses.settings(path.local()) {
                path.cost.set(settings.cost);
                path.standby_wanted(settings.standby);
            }
        }
        self.supply.on_networks_changed();
        self.close_unwanted(now);
        self.open_missing(now);
        self.review(now);
    }

    pub(in crate::connection) fn has_lost_address(&self, at: At) -> bool {
        let lost = |local: IpAddr| {
            self.supply.addresses.ours().next().is_some() && !self.supply.addresses.has(local)
        };
        self.paths[at].local().is_some_and(lost)
    }

    pub(in crate::connection) fn on_add_address(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let (sequence, address) = read_add(reader)?;
        let change = self.supply.addresses.add_theirs(sequence, address);
        self.on_change(now, change);
        self.open_missing(now);
        Ok(())
    }

    pub(in crate::connection) fn on_delete_address(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let sequence = reader.varint()?;
        let change = self.supply.addresses.remove_theirs(sequence);
        self.on_change(now, change);
        if let Some(Change::Removed(address)) = change {
            for path in self.paths.iter_mut().filter(|path| path.remote() == address) {
                path.leaving.on_withdrawn();
            }
            self.close_unwanted(now);
        }
        Ok(())
    }

    fn on_change(&mut self, now: Time, change: Option<Change>) {
        if let (Some(observer), Some(change)) = (&mut self.observer, change) {
            observer.on_address(now, "the peer's", change.word(), change.address());
        }
        self.events.extend(change.map(|change| match change {
            Change::Added(address) => Event::PeerAddressAdded(address),
            Change::Removed(address) => Event::PeerAddressRemoved(address),
        }));
    }
}
