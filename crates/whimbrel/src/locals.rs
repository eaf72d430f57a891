//! Which of this host's addresses a connection uses.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use whimbrel_net::HostAddress;
use whimbrel_proto::LocalAddress;
use whimbrel_proto::units::ParseError;

use crate::local_socket::LocalSocket;

/// What a connection, or an endpoint, uses of the networks that its host is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// All of them, as they come and go: a client opens a path from an address on each device that is up, and the socket's own choice is the
    /// first; a listener on `[::]` or `0.0.0.0` announces every address, one that is bound to an address only that. A connection within the
    /// host, and a client bound to one address, have one path.
    #[default]
    Auto,
    /// These addresses, as far as the host has them at the moment.
    Only(Vec<LocalPath>),
    /// One path, from wherever the system sends, and nothing is announced.
    Single,
}

/// An address of this host, and how paths from it are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPath {
    /// The address.
    pub address: IpAddr,
    /// What a byte costs there, in a measure of your own: a path that costs more carries nothing while one that costs less works. Default 0.
    pub cost: u32,
    /// Used only while no other path works. Default false.
    pub standby: bool,
    /// The connection begins here. Default false: with the first of the list that is neither standby nor dearer.
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

/// `LOCAL[,cost=N][,prefer|standby]`, for example `192.0.2.7,cost=2`.
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

/// `auto`, `single`, or addresses as of [`LocalPath`] with spaces between them.
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

whimbrel_proto::serde_as_text!(LocalPath, Paths);

impl From<IpAddr> for LocalPath {
    fn from(address: IpAddr) -> Self {
        Self { address, cost: 0, standby: false, prefer: false }
    }
}

/// Where the other end of a connection is, as seen from here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    /// The address the system sends from to there.
    pub(crate) source: Option<IpAddr>,
    /// On this very host: a socket bound to a device would not hear it.
    pub(crate) near: bool,
}

impl Peer {
    pub(crate) fn new(remote: SocketAddr, host: &[HostAddress]) -> Self {
        let near = remote.ip().is_loopback() || host.iter().any(|own| own.ip == remote.ip());
        Self { remote, source: None, near }
    }

    /// With the address that the system sends from.
    pub(crate) fn with_source(self) -> Self {
        Self { source: whimbrel_net::source_for(self.remote).ok(), ..self }
    }
}

/// An address to be used, on a device if traffic is to be kept to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) path: LocalPath,
    pub(crate) device: Option<HostAddress>,
}

/// The addresses that a client uses now, the one to begin with first.
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

/// The addresses that a listener on `bound` announces now.
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

/// As the protocol wants to know it.
pub(crate) fn announced(path: &LocalPath, port: u16) -> LocalAddress {
    LocalAddress { address: SocketAddr::new(path.address, port), cost: path.cost, standby: path.standby }
}

/// Of each device one address of each family: more would only be the same way again.
fn one_each(peer: Peer, host: &[HostAddress]) -> Vec<Local> {
    let mut candidates: Vec<&HostAddress> = host.iter().filter(|own| own.usable).collect();
    // The system's own choice first, and as RFC 6724 5 wants it: temporary addresses before those that follow a person around.
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

/// Of loopback every address is there, without being listed.
fn is_there(ip: IpAddr, host: &[HostAddress]) -> bool {
    ip.is_loopback() || host.iter().any(|own| own.ip == ip && own.up)
}

/// The local side of a connection with several paths, or that may get some.
pub(crate) struct Locals {
    pub(crate) paths: Paths,
    /// Addresses of paths that the application opened.
    pub(crate) by_hand: Vec<LocalPath>,
    /// For packets that name no source, such as the handshake's: by which socket each of the peer's addresses is asked.
    homes: Vec<(SocketAddr, Arc<LocalSocket>)>,
    sockets: Vec<Arc<LocalSocket>>,
}

impl Locals {
    pub(crate) fn new(paths: Paths) -> Self {
        Self { paths, by_hand: Vec::new(), homes: Vec::new(), sockets: Vec::new() }
    }

    /// Packets to `remote` that name no source leave by this socket.
    pub(crate) fn begin_from(&mut self, socket: Arc<LocalSocket>, remote: SocketAddr) {
        self.add(Arc::clone(&socket));
        self.homes.retain(|(other, _)| *other != remote);
        self.homes.push((remote, socket));
    }

    /// Another of the peer's addresses is asked, too.
    pub(crate) fn begin_also(&mut self, other: Self) {
        for (remote, socket) in other.homes {
            self.begin_from(socket, remote);
        }
    }

    /// The socket for packets from `source` to `remote`. None: the endpoint's own.
    pub(crate) fn socket_for(&self, source: Option<IpAddr>, remote: SocketAddr) -> Option<Arc<LocalSocket>> {
        match source {
            None => self.homes.iter().find(|(home, _)| *home == remote).map(|(_, socket)| Arc::clone(socket)),
            Some(ip) => self.sockets.iter().find(|socket| socket.address().ip() == ip).cloned(),
        }
    }

    /// Takes a socket into use, in place of one of the same address.
    pub(crate) fn add(&mut self, socket: Arc<LocalSocket>) {
        let ip = socket.address().ip();
        for (_, old) in self.homes.iter_mut().filter(|(_, old)| old.address().ip() == ip) {
            *old = Arc::clone(&socket);
        }
        self.sockets.retain(|old| old.address().ip() != ip);
        self.sockets.push(socket);
    }

    /// Lets go of sockets that are not wanted.
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
