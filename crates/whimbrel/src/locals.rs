//! The choice of this host's addresses for a connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use whimbrel_net::HostAddress;
use whimbrel_proto::LocalAddress;
use whimbrel_proto::units::ParseError;

use crate::local_socket::LocalSocket;

/// The networks of the host that a connection, or an endpoint, uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// All networks, as they come and go. A client opens a path from an address on each device that is up, and begins
    /// with the address that the system would choose. A listener on `[::]` or `0.0.0.0` announces every address; one
    /// bound to a single address announces only that. A connection within the host, and a client bound to a single
    /// address, have one path.
    #[default]
    Auto,
    /// Only these addresses, as far as the host has them at the moment.
    Only(Vec<LocalPath>),
    /// A single path, from whatever address the system sends. No address is announced.
    Single,
}

/// An address of this host, and how to use paths from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPath {
    /// The address.
    pub address: IpAddr,
    /// The cost of a byte there, in any unit. A path carries nothing while a cheaper one works. Default 0.
    pub cost: u32,
    /// Whether paths from here are used only while no other path works. Default false.
    pub standby: bool,
    /// Whether the connection begins here. If no address has this set, it begins with the first one on the list that
    /// is not standby and has the lowest cost. Default false.
    pub prefer: bool,
}

impl fmt::Display for LocalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.cost > 0 {
            write!(f, ",cost={}", self.cost)?;
        }
        f.write_str(if self.prefer { ",prefer" } else { "" })?;
        f.write_str(if self.standby { ",standby" } else { "" })
    }
}

/// Parses `LOCAL[,cost=N][,prefer|standby]`, for example `192.0.2.7,cost=2`.
impl FromStr for LocalPath {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parts = text.split(',');
        let local = parts.next().unwrap_or_default();
        let address: IpAddr = local.trim_matches(['[', ']']).parse().map_err(|_| {
            ParseError::new(
                "IP address",
                local,
                "an address of this host, for example 192.0.2.7 or 2001:db8::7",
            )
        })?;
        let mut path = Self::from(address);
        for part in parts {
            match part.split_once('=') {
                None if part == "prefer" => path.prefer = true,
                None if part == "standby" => path.standby = true,
                Some(("cost", cost)) => {
                    path.cost = cost
                        .parse()
                        .map_err(|_| ParseError::new("cost", cost, "a whole number, 0 and up"))?;
                }
                _ => {
                    let good = "cost=N, prefer or standby after the address";
                    return Err(ParseError::new("property of a path", part, good));
                }
            }
        }
        if path.prefer && path.standby {
            return Err(ParseError::plain("a path is either preferred or in standby".to_owned()));
        }
        Ok(path)
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Single => f.write_str("single"),
            Self::Only(paths) => {
                for (at, path) in paths.iter().enumerate() {
                    write!(f, "{}{path}", if at == 0 { "" } else { " " })?;
                }
                Ok(())
            }
        }
    }
}

/// Parses `auto`, `single`, or addresses as for [`LocalPath`], separated by spaces.
impl FromStr for Paths {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "single" => Ok(Self::Single),
            "" => Err(ParseError::new("choice of paths", text, "auto, single, or addresses of this host")),
            paths => paths.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self::Only),
        }
    }
}

whimbrel_proto::serde_as_text!(LocalPath);

#[cfg(feature = "serde")]
impl serde::Serialize for Paths {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the text form, or a list with one [`LocalPath`] each, such as `["10.0.0.7,cost=2", "192.0.2.7"]`.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Paths {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(TextOrList)
        } else {
            deserializer.deserialize_str(TextOrList)
        }
    }
}

#[cfg(feature = "serde")]
struct TextOrList;

#[cfg(feature = "serde")]
impl<'de> serde::de::Visitor<'de> for TextOrList {
    type Value = Paths;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"auto\", \"single\", or a list of this host's addresses, for example [\"192.0.2.7\"]")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Paths, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Paths, A::Error> {
        let mut paths = Vec::new();
        while let Some(path) = list.next_element()? {
            paths.push(path);
        }
        if paths.is_empty() {
            return Err(serde::de::Error::custom(
                "the list of paths is empty: name an address of this host, or write \"auto\" or \"single\"",
            ));
        }
        Ok(Paths::Only(paths))
    }
}

impl From<IpAddr> for LocalPath {
    fn from(address: IpAddr) -> Self {
        Self { address, cost: 0, standby: false, prefer: false }
    }
}

/// The other end of a connection, as seen from this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    /// The address from which the system sends to `remote`.
    pub(crate) source: Option<IpAddr>,
    /// Whether the peer is on this same host. A socket bound to a device would not receive from it.
    pub(crate) near: bool,
}

impl Peer {
    pub(crate) fn new(remote: SocketAddr, host: &[HostAddress]) -> Self {
        let near = remote.ip().is_loopback() || host.iter().any(|own| own.ip == remote.ip());
        Self { remote, source: None, near }
    }

    /// Fills in the address from which the system sends.
    pub(crate) fn with_source(self) -> Self {
        Self { source: whimbrel_net::source_for(self.remote).ok(), ..self }
    }
}

/// A local address to use, with its device if traffic must stay on that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) path: LocalPath,
    pub(crate) device: Option<HostAddress>,
}

/// Returns the addresses that a client uses now, with the one to begin with first.
pub(crate) fn of_client(paths: &Paths, peer: Peer, host: &[HostAddress]) -> Vec<Local> {
    let mut locals = match paths {
        Paths::Single => Vec::new(),
        Paths::Auto if peer.near => Vec::new(),
        Paths::Auto => one_each(peer, host),
        Paths::Only(list) => list
            .iter()
            .filter(|path| is_there(path.address, host))
            .map(|path| local(*path, peer, host))
            .collect(),
    };
    locals.sort_by_key(|local: &Local| {
        let LocalPath { address, cost, standby, prefer } = local.path;
        let reaches = address.is_ipv4() == peer.remote.is_ipv4();
        let by_route = *paths == Paths::Auto && Some(address) == peer.source;
        (!reaches, !by_route, !prefer, standby, cost)
    });
    locals
}

/// Returns the addresses that a listener on `bound` announces now.
pub(crate) fn of_server(
    paths: &Paths,
    bound: SocketAddr,
    peer: Peer,
    host: &[HostAddress],
) -> Vec<LocalAddress> {
    let reachable = |ip: &IpAddr| match bound.ip() {
        IpAddr::V6(any) if any.is_unspecified() => true,
        IpAddr::V4(any) if any.is_unspecified() => ip.is_ipv4(),
        one => *ip == one,
    };
    let paths: Vec<LocalPath> = match paths {
        Paths::Single => Vec::new(),
        Paths::Auto if peer.near => Vec::new(),
        Paths::Auto => {
            host.iter().filter(|own| own.usable && !own.temporary).map(|own| own.ip.into()).collect()
        }
        Paths::Only(list) => list.iter().filter(|path| is_there(path.address, host)).copied().collect(),
    };
    let paths = paths.iter().filter(|path| reachable(&path.address));
    paths.map(|path| announced(path, bound.port())).collect()
}

/// Converts a local path to the form that the protocol core takes.
pub(crate) fn announced(path: &LocalPath, port: u16) -> LocalAddress {
    LocalAddress { address: SocketAddr::new(path.address, port), cost: path.cost, standby: path.standby }
}

/// Chooses one address per device and family. A second one would lead over the same network.
fn one_each(peer: Peer, host: &[HostAddress]) -> Vec<Local> {
    let mut candidates: Vec<&HostAddress> = host.iter().filter(|own| own.usable).collect();
    // The system's choice comes first. Then temporary addresses come before stable ones, for privacy (RFC 6724
    // section 5).
    candidates.sort_by_key(|own| (Some(own.ip) != peer.source, !own.temporary, own.ip));
    let mut chosen: Vec<&HostAddress> = Vec::new();
    for own in candidates {
        if !chosen.iter().any(|other| other.index == own.index && other.ip.is_ipv4() == own.ip.is_ipv4()) {
            chosen.push(own);
        }
    }
    chosen.into_iter().map(|own| local(own.ip.into(), peer, host)).collect()
}

pub(crate) fn local(path: LocalPath, peer: Peer, host: &[HostAddress]) -> Local {
    let device = host.iter().find(|own| own.ip == path.address && !peer.near && !own.ip.is_loopback());
    Local { path, device: device.cloned() }
}

/// Returns whether this host has an address. Every loopback address exists without being listed.
fn is_there(ip: IpAddr, host: &[HostAddress]) -> bool {
    ip.is_loopback() || host.iter().any(|own| own.ip == ip && own.up)
}

/// The local side of a connection that has several paths, or may get them.
pub(crate) struct Locals {
    pub(crate) paths: Paths,
    /// Local addresses of the paths that the application opened.
    pub(crate) by_hand: Vec<LocalPath>,
    /// The socket for each of the peer's addresses, for packets that name no source, such as those of the handshake.
    homes: Vec<(SocketAddr, Arc<LocalSocket>)>,
    sockets: Vec<Arc<LocalSocket>>,
}

impl Locals {
    pub(crate) fn new(paths: Paths) -> Self {
        Self { paths, by_hand: Vec::new(), homes: Vec::new(), sockets: Vec::new() }
    }

    /// Makes packets to `remote` that name no source leave by this socket.
    pub(crate) fn begin_from(&mut self, socket: Arc<LocalSocket>, remote: SocketAddr) {
        self.add(Arc::clone(&socket));
        self.homes.retain(|(other, _)| *other != remote);
        self.homes.push((remote, socket));
    }

    /// Adds another address of the peer to try, with its socket.
    pub(crate) fn begin_also(&mut self, other: Self) {
        for (remote, socket) in other.homes {
            self.begin_from(socket, remote);
        }
    }

    /// Returns the socket for packets from `source` to `remote`. None: the endpoint's own.
    pub(crate) fn socket_for(&self, source: Option<IpAddr>, remote: SocketAddr) -> Option<Arc<LocalSocket>> {
        match source {
            None => self.homes.iter().find(|(home, _)| *home == remote).map(|(_, socket)| Arc::clone(socket)),
            Some(ip) => self.sockets.iter().find(|socket| socket.address().ip() == ip).cloned(),
        }
    }

    /// Adds a socket, in place of one with the same address.
    pub(crate) fn add(&mut self, socket: Arc<LocalSocket>) {
        let ip = socket.address().ip();
        for (_, old) in self.homes.iter_mut().filter(|(_, old)| old.address().ip() == ip) {
            *old = Arc::clone(&socket);
        }
        self.sockets.retain(|old| old.address().ip() != ip);
        self.sockets.push(socket);
    }

    /// Drops the sockets whose addresses are not wanted.
    pub(crate) fn keep(&mut self, wanted: impl Fn(IpAddr) -> bool) {
        self.sockets.retain(|socket| wanted(socket.address().ip()));
        self.homes.retain(|(_, home)| wanted(home.address().ip()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(ip: &str, index: u32) -> HostAddress {
        let ip: IpAddr = ip.parse().unwrap();
        HostAddress {
            ip,
            device: format!("eth{index}"),
            index,
            temporary: false,
            up: true,
            usable: !ip.is_loopback(),
        }
    }

    fn peer(remote: &str, source: &str) -> Peer {
        Peer { remote: remote.parse().unwrap(), source: source.parse().ok(), near: false }
    }

    fn ips(locals: &[Local]) -> Vec<String> {
        locals.iter().map(|local| local.path.address.to_string()).collect()
    }

    #[test]
    fn a_client_uses_one_address_a_device_and_family_the_systems_choice_first() {
        let mut host = vec![
            own("127.0.0.1", 1),
            own("10.0.0.1", 2),
            own("10.0.0.2", 2),
            own("10.1.0.1", 3),
            own("10.2.0.1", 4),
            own("2001:db8::1", 2),
            own("2001:db8::2", 2),
        ];
        host[4].usable = false;
        host[6].temporary = true;
        let far = peer("203.0.113.1:9", "10.1.0.1");
        assert_eq!(ips(&of_client(&Paths::Auto, far, &host)), ["10.1.0.1", "10.0.0.1", "2001:db8::2"]);
        let locals = of_client(&Paths::Auto, far, &host);
        assert!(locals.iter().all(|local| local.device.is_some()));
        assert!(of_client(&Paths::Auto, Peer { near: true, ..far }, &host).is_empty());
        assert!(of_client(&Paths::Single, far, &host).is_empty());
    }

    #[test]
    fn chosen_addresses_are_used_while_they_are_there() {
        let host = [own("10.0.0.1", 2), own("10.1.0.1", 3)];
        let path = |text: &str| LocalPath::from(text.parse::<IpAddr>().unwrap());
        let only = Paths::Only(vec![
            LocalPath { standby: true, ..path("10.0.0.1") },
            path("10.9.9.9"),
            LocalPath { cost: 3, ..path("10.1.0.1") },
        ]);
        let far = peer("203.0.113.1:9", "10.0.0.1");
        assert_eq!(ips(&of_client(&only, far, &host)), ["10.1.0.1", "10.0.0.1"]);
        let preferred = Paths::Only(vec![path("127.0.0.1"), LocalPath { prefer: true, ..path("127.0.0.2") }]);
        let near = Peer { near: true, ..peer("127.0.0.1:9", "127.0.0.1") };
        let locals = of_client(&preferred, near, &host);
        assert_eq!(ips(&locals), ["127.0.0.2", "127.0.0.1"]);
        assert!(locals.iter().all(|local| local.device.is_none()), "a device would not hear this host");
    }

    #[test]
    fn a_listener_announces_what_it_can_be_reached_at() {
        let mut host = [own("10.0.0.1", 2), own("2001:db8::1", 2), own("2001:db8::7", 2), own("10.1.0.1", 3)];
        host[2].temporary = true;
        let far = peer("203.0.113.1:9", "10.0.0.1");
        let announced = |bound: &str, paths: &Paths, peer| {
            let list = of_server(paths, bound.parse().unwrap(), peer, &host);
            list.iter().map(|local| local.address.to_string()).collect::<Vec<_>>()
        };
        let all = announced("[::]:44", &Paths::Auto, far);
        assert_eq!(all, ["10.0.0.1:44", "[2001:db8::1]:44", "10.1.0.1:44"]);
        assert_eq!(announced("0.0.0.0:44", &Paths::Auto, far), ["10.0.0.1:44", "10.1.0.1:44"]);
        assert_eq!(announced("10.1.0.1:44", &Paths::Auto, far), ["10.1.0.1:44"]);
        assert!(announced("[::]:44", &Paths::Auto, Peer { near: true, ..far }).is_empty());
        assert!(announced("[::]:44", &Paths::Single, far).is_empty());
    }
}
