//! The addresses of this host from which packets can be sent and at which answers arrive.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ptr;

/// An address of this host, and its device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostAddress {
    /// The address.
    pub ip: IpAddr,
    /// The device's name, such as `eth0`.
    pub device: String,
    /// The system's index of the device. It changes when the device is unplugged and plugged in again.
    pub index: u32,
    /// Whether this is a temporary address (RFC 8981): good for connecting, not for being found.
    pub temporary: bool,
    /// Whether the device is up and has its carrier.
    pub up: bool,
    /// Whether the address can be used for traffic with other hosts now. The device must be up. The address must not
    /// be limited to this host or link, still being checked for duplicates, or deprecated.
    pub usable: bool,
}

/// Lists all addresses of this host in a stable order.
///
/// # Errors
/// The system does not list them.
pub fn host_addresses() -> io::Result<Vec<HostAddress>> {
    let flags = ipv6_flags();
    let mut addresses = Vec::new();
    each_interface(|name, interface_flags, ip| {
        let flags =
            flags.iter().find(|(flagged, _)| IpAddr::V6(*flagged) == ip).map_or(0, |(_, flags)| *flags);
        let up = interface_flags & WANTED == WANTED;
        addresses.push(HostAddress {
            ip,
            device: name.to_string_lossy().into_owned(),
            index: device_index(name),
            temporary: flags & TEMPORARY != 0,
            up,
            usable: up && is_global(ip) && flags & UNFIT == 0,
        });
    })?;
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}

/// Returns the address from which the system would send to `remote`.
///
/// # Errors
/// There is no route to `remote`.
pub fn source_for(remote: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // This looks up the route and sends nothing.
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

/// The flags of a device that is up and has its carrier.
const WANTED: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;

/// Flags of IPv6 addresses on Linux (`linux/if_addr.h`).
const TEMPORARY: u32 = 0x01;
/// Flags of unusable addresses: another host has it, it is deprecated, or duplicates are still being looked for.
const UNFIT: u32 = 0x08 | 0x20 | 0x40;

/// Returns whether an address reaches beyond this host and this link.
fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_broadcast())
        }
        IpAddr::V6(ip) => {
            !(ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_multicast())
        }
    }
}

/// Flags of IPv6 addresses, which Linux has and getifaddrs does not return; empty on other systems.
fn ipv6_flags() -> Vec<(Ipv6Addr, u32)> {
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    table.lines().filter_map(ipv6_flag).collect()
}

/// Parses a line `address index prefix scope flags device`, in hexadecimal.
fn ipv6_flag(line: &str) -> Option<(Ipv6Addr, u32)> {
    let mut fields = line.split_whitespace();
    let ip = u128::from_str_radix(fields.next()?, 16).ok()?;
    let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
    Some((ip.into(), flags))
}

#[allow(unsafe_code, reason = "the system's list is C")]
fn device_index(name: &CStr) -> u32 {
    // SAFETY: the name is a C string that lives through the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// Calls `tell` for each address, with its device's name and flags.
#[allow(unsafe_code, reason = "the system's list is C")]
fn each_interface(mut tell: impl FnMut(&CStr, u32, IpAddr)) -> io::Result<()> {
    let mut first = ptr::null_mut();
    // SAFETY: getifaddrs writes the head of a list into `first`. The list is only read, and freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut next = first;
    // SAFETY: each entry is valid until the list is freed, and so are its name and its address.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        if let Some(ip) = unsafe { ip_of(entry.ifa_addr) } {
            // SAFETY: as above.
            tell(unsafe { CStr::from_ptr(entry.ifa_name) }, entry.ifa_flags, ip);
        }
        next = entry.ifa_next;
    }
    // SAFETY: this is the list from above, freed once.
    unsafe { libc::freeifaddrs(first) };
    Ok(())
}

/// # Safety
/// `address` must be null, or point to an address as long as its family requires.
#[allow(unsafe_code, reason = "the system's addresses are C")]
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller guarantees the length. An address may be anywhere in memory, so it is read unaligned.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_ipv6_addresses() {
        let line = "fd000000000000000000000000000002 04 40 00 82     eth0";
        assert_eq!(ipv6_flag(line), Some(("fd00::2".parse().unwrap(), 0x82)));
        assert_eq!(ipv6_flag("nonsense"), None);
    }

    #[test]
    fn this_host_has_loopback_and_does_not_use_it() {
        let addresses = host_addresses().unwrap();
        let loopback = addresses.iter().find(|address| address.ip.is_loopback()).unwrap();
        assert!(!loopback.usable && loopback.index > 0 && !loopback.device.is_empty());
    }

    #[test]
    fn addresses_of_one_host_or_link_are_not_used() {
        for ip in ["127.0.0.1", "169.254.7.7", "0.0.0.0", "::1", "fe80::1", "ff02::1"] {
            assert!(!is_global(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["192.168.1.5", "203.0.113.7", "fd00::2", "2001:db8::1"] {
            assert!(is_global(ip.parse().unwrap()), "{ip}");
        }
    }
}
