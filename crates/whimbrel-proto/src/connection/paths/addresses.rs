//! The addresses that each end announces (dynamic address reconfiguration of MMSP and ADD-IP).

use std::net::{IpAddr, SocketAddr};

use crate::wire::{Reader, Writer, block};
use crate::{Cause, PeerMisbehaved};

/// The most addresses of the peer that are kept.
pub(in crate::connection) const MOST: usize = 16;

/// An address of this host, and how paths from it are to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address, with the port at which the peer can reach it.
    pub address: SocketAddr,
    /// The cost of a byte on paths from here, in a unit of your own. A path that costs more carries nothing while a
    /// cheaper one works. Default 0.
    pub cost: u32,
    /// Whether paths from here are used only while no other works. Default false.
    pub standby: bool,
}

impl From<SocketAddr> for LocalAddress {
    fn from(address: SocketAddr) -> Self {
        Self { address, cost: 0, standby: false }
    }
}

/// The known addresses of both ends. Most connections know none beside those of their paths, so the box is rarely
/// there.
#[derive(Debug, Default)]
pub(in crate::connection) struct Addresses(Option<Box<AddressLists>>);

#[derive(Debug, Default)]
struct AddressLists {
    ours: Vec<(u64, LocalAddress)>,
    next: u64,
    theirs: Vec<(u64, SocketAddr)>,
    /// The peer's addresses that have answered a challenge in this session, the latest last.
    answered: Vec<SocketAddr>,
    /// The sequence numbers of removed addresses, including ones that were never added: the blocks may come in any
    /// order, and again.
    removed: Vec<u64>,
}

/// A change of the known addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Change {
    Added(SocketAddr),
    Removed(SocketAddr),
}

impl Change {
    pub(in crate::connection) const fn word(self) -> &'static str {
        match self {
            Self::Added(_) => "added",
            Self::Removed(_) => "removed",
        }
    }

    pub(in crate::connection) const fn address(self) -> SocketAddr {
        match self {
            Self::Added(address) | Self::Removed(address) => address,
        }
    }
}

impl Addresses {
    pub(in crate::connection) fn ours(&self) -> impl Iterator<Item = &LocalAddress> {
        self.0.iter().flat_map(|known| &known.ours).map(|(_, ours)| ours)
    }

    /// Returns whether `ip` is one of this host's addresses.
    pub(in crate::connection) fn has(&self, ip: IpAddr) -> bool {
        self.ours().any(|ours| ours.address.ip() == ip)
    }

    pub(in crate::connection) fn theirs(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().flat_map(|known| &known.theirs).map(|(_, theirs)| *theirs)
    }

    /// Returns how paths from `local` are to be used.
    pub(in crate::connection) fn settings(&self, local: Option<IpAddr>) -> Option<LocalAddress> {
        self.ours().find(|ours| Some(ours.address.ip()) == local).copied()
    }

    /// Continues from an earlier connection: the peer's addresses that have answered stay known.
    pub(in crate::connection) fn go_on_from(&mut self, before: &Self) {
        for answered in before.0.iter().flat_map(|known| &known.answered) {
            self.on_answered(*answered);
        }
    }

    /// Records that an address of the peer answered a challenge.
    pub(in crate::connection) fn on_answered(&mut self, address: SocketAddr) {
        if !self.has_answered(address) {
            let answered = &mut self.known().answered;
            if answered.len() == MOST {
                answered.remove(0);
            }
            answered.push(address);
        }
    }

    pub(in crate::connection) fn answered(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().flat_map(|known| known.answered.iter().rev()).copied()
    }

    /// Returns whether the address has answered a challenge. If it has not, it may be that of a third party to which
    /// the peer would direct our packets.
    pub(in crate::connection) fn has_answered(&self, address: SocketAddr) -> bool {
        self.0.as_ref().is_some_and(|known| known.answered.contains(&address))
    }

    /// Sets this host's addresses. Passes each change to `tell`, with the block that announces it to the peer.
    pub(in crate::connection) fn set_ours(
        &mut self,
        now: &[LocalAddress],
        mut tell: impl FnMut(Change, Vec<u8>),
    ) {
        let gone = |old: &LocalAddress| !now.iter().any(|new| new.address == old.address);
        let AddressLists { ours, next, .. } = self.known();
        for (sequence, old) in ours.iter().filter(|(_, old)| gone(old)) {
            tell(Change::Removed(old.address), write_delete(*sequence));
        }
        ours.retain(|(_, old)| !gone(old));
        for new in now {
            match ours.iter_mut().find(|(_, old)| old.address == new.address) {
                Some((_, old)) => *old = *new,
                None => {
                    tell(Change::Added(new.address), write_add(*next, new.address));
                    ours.push((*next, *new));
                    *next += 1;
                }
            }
        }
    }

    /// Adds an address of the peer. Returns `None` if it is known or removed already, or if there are too many.
    pub(in crate::connection) fn add_theirs(&mut self, sequence: u64, address: SocketAddr) -> Option<Change> {
        let AddressLists { theirs, removed, .. } = self.known();
        let known = theirs.iter().any(|(known, _)| *known == sequence);
        if known || removed.contains(&sequence) {
            return None;
        }
        if theirs.len() == MOST {
            // With this many addresses, the newest is ignored.
            return None;
        }
        theirs.push((sequence, address));
        Some(Change::Added(address))
    }

    /// Removes an address of the peer. Returns `None` if it was not known.
    pub(in crate::connection) fn remove_theirs(&mut self, sequence: u64) -> Option<Change> {
        let AddressLists { theirs, removed, .. } = self.known();
        if !removed.contains(&sequence) {
            if removed.len() == MOST {
                removed.remove(0);
            }
            removed.push(sequence);
        }
        let position = theirs.iter().position(|(known, _)| *known == sequence)?;
        Some(Change::Removed(theirs.remove(position).1))
    }

    fn known(&mut self) -> &mut AddressLists {
        self.0.get_or_insert_default()
    }
}

pub(in crate::connection) fn write_add(sequence: u64, address: SocketAddr) -> Vec<u8> {
    let mut out = Vec::with_capacity(28);
    let mut writer = Writer::new(&mut out, usize::MAX);
    writer.u8(block::ADD_ADDRESS);
    writer.varint(sequence);
    match address.ip() {
        IpAddr::V4(ip) => {
            writer.u8(4);
            writer.bytes(&ip.octets());
        }
        IpAddr::V6(ip) => {
            writer.u8(6);
            writer.bytes(&ip.octets());
        }
    }
    writer.bytes(&address.port().to_be_bytes());
    out
}

pub(in crate::connection) fn write_delete(sequence: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    let mut writer = Writer::new(&mut out, usize::MAX);
    writer.u8(block::DELETE_ADDRESS);
    writer.varint(sequence);
    out
}

/// Reads ADD_ADDRESS: its sequence number and the address.
///
/// # Errors
/// The family is neither 4 nor 6, or the address cannot be that of one host.
pub(in crate::connection) fn read_add(reader: &mut Reader) -> Result<(u64, SocketAddr), PeerMisbehaved> {
    let sequence = reader.varint()?;
    let ip = match reader.u8()? {
        4 => IpAddr::from(reader.array::<4>()?),
        6 => IpAddr::from(reader.array::<16>()?),
        _ => return Err(PeerMisbehaved::new(Cause::InvalidField, "ADD_ADDRESS: unknown family")),
    };
    let port = u16::from_be_bytes(reader.array()?);
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if ip.is_unspecified() || ip.is_multicast() || is_broadcast || port == 0 {
        return Err(PeerMisbehaved::new(Cause::InvalidField, "ADD_ADDRESS: not an address of a host"));
    }
    Ok((sequence, SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_announced_is_understood() {
        for text in ["192.0.2.7:4433", "[2001:db8::7]:9"] {
            let block = write_add(300, address(text));
            let mut reader = Reader::new(Bytes::from(block));
            assert_eq!(reader.u8(), Ok(block::ADD_ADDRESS));
            assert_eq!(read_add(&mut reader), Ok((300, address(text))));
            assert!(reader.is_empty());
        }
        for bad in ["0.0.0.0:1", "255.255.255.255:1", "224.0.0.1:1", "192.0.2.7:0", "[ff02::1]:1", "[::]:1"] {
            let mut reader = Reader::new(Bytes::from(write_add(0, address(bad))));
            reader.u8().unwrap();
            assert!(read_add(&mut reader).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_changes_are_told() {
        let mut addresses = Addresses::default();
        let mut changes = Vec::new();
        let (one, two) = (address("192.0.2.1:1"), address("192.0.2.2:1"));
        addresses.set_ours(&[one.into()], |change, _| changes.push(change));
        addresses.set_ours(&[one.into(), two.into()], |change, _| changes.push(change));
        addresses.set_ours(&[two.into()], |change, _| changes.push(change));
        assert_eq!(changes, [Change::Added(one), Change::Added(two), Change::Removed(one)]);
    }

    #[test]
    fn announcements_in_any_order_and_without_end() {
        let mut addresses = Addresses::default();
        let one = address("192.0.2.1:1");
        assert_eq!(addresses.remove_theirs(0), None);
        assert_eq!(addresses.add_theirs(0, one), None, "gone before it came");
        assert_eq!(addresses.add_theirs(1, one), Some(Change::Added(one)));
        assert_eq!(addresses.add_theirs(1, one), None, "repeated");
        assert_eq!(addresses.remove_theirs(1), Some(Change::Removed(one)));
        assert_eq!(addresses.add_theirs(1, one), None, "repeated after it was gone");
        assert_eq!(addresses.remove_theirs(1), None);
        for sequence in 2..1000 {
            addresses.add_theirs(sequence, one);
            addresses.remove_theirs(sequence + 10_000);
        }
        let known = addresses.known();
        assert_eq!((known.theirs.len(), known.removed.len()), (MOST, MOST));
    }
}
