//! The links of this host, and who is on them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockaddrStorage;

/// A link, as it is at the other side of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalLink {
    pub(super) name: String,
    pub(super) index: u32,
    /// Our addresses there, each with the network that is on the link.
    networks: Vec<IpNet>,
}

impl LocalLink {
    /// Returns the links of these interfaces that there are and that have addresses.
    pub(super) fn list(names: &[String]) -> io::Result<Vec<Self>> {
        let all: Vec<_> = getifaddrs()?.collect();
        let link = |name: &String| {
            let own = all.iter().filter(|address| address.interface_name == *name);
            let networks = own.filter_map(|own| network(own.address.as_ref()?, own.netmask.as_ref()?));
            let networks: Vec<_> = networks.collect();
            let index = if_nametoindex(name.as_str()).ok().filter(|_| !networks.is_empty())?;
            Some(Self { name: name.clone(), index, networks })
        };
        Ok(names.iter().filter_map(link).collect())
    }

    /// Returns whether an address is of a host there, or of this host.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&ip))
    }

    /// An IPv4 address of this host there.
    pub(super) fn ipv4(&self) -> Option<Ipv4Addr> {
        self.networks.iter().find_map(|network| match network.addr() {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        })
    }
}

fn network(address: &SockaddrStorage, mask: &SockaddrStorage) -> Option<IpNet> {
    IpNet::with_netmask(ip(address)?, ip(mask)?).ok()
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    let address = v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))?;
    Some(address.ip())
}
