//! Chooses the address pairs to open paths on. Each address of either end is used once, with the nearest address of the
//! other end.

use std::net::{IpAddr, SocketAddr};

/// Returns the pairs to open paths on. `taken` holds the addresses of the existing paths.
pub(in crate::connection) fn missing(
    locals: &[IpAddr],
    remotes: &[SocketAddr],
    taken: &[(Option<IpAddr>, SocketAddr)],
) -> Vec<(IpAddr, SocketAddr)> {
    let mut pairs: Vec<(IpAddr, SocketAddr)> = Vec::new();
    for local in locals {
        if taken.iter().any(|(own, _)| *own == Some(*local)) {
            continue;
        }
        let used = |remote: &SocketAddr| uses(taken, &pairs, *remote);
        let nearest = remotes
            .iter()
            .filter(|remote| is_reachable(*local, remote.ip()))
            .max_by_key(|remote| (common_bits(*local, remote.ip()).min(LAN_BITS), !used(remote)));
        if let Some(remote) = nearest {
            pairs.push((*local, *remote));
        }
    }
    for remote in remotes {
        if uses(taken, &pairs, *remote) {
            continue;
        }
        let nearest = locals
            .iter()
            .filter(|local| is_reachable(**local, remote.ip()))
            .max_by_key(|local| common_bits(**local, remote.ip()));
        if let Some(local) = nearest {
            pairs.push((*local, *remote));
        }
    }
    pairs
}

/// Addresses that have more leading bits in common than this are in one network anyway.
const LAN_BITS: u32 = 24;

fn uses(taken: &[(Option<IpAddr>, SocketAddr)], pairs: &[(IpAddr, SocketAddr)], remote: SocketAddr) -> bool {
    taken.iter().any(|(_, used)| *used == remote) || pairs.iter().any(|(_, used)| *used == remote)
}

/// Returns whether both are of one family, and both or neither are loopback addresses.
fn is_reachable(local: IpAddr, remote: IpAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() && local.is_loopback() == remote.is_loopback()
}

/// Returns how many leading bits are equal. Addresses with many equal bits are in the same network.
fn common_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(locals: &[&str], remotes: &[&str], taken: &[(&str, &str)]) -> Vec<(String, String)> {
        let locals: Vec<IpAddr> = locals.iter().map(|text| text.parse().unwrap()).collect();
        let remotes: Vec<SocketAddr> = remotes.iter().map(|text| text.parse().unwrap()).collect();
        let taken: Vec<_> = taken
            .iter()
            .map(|(local, remote)| (Some(local.parse().unwrap()), remote.parse().unwrap()))
            .collect();
        let found = missing(&locals, &remotes, &taken);
        found.iter().map(|(local, remote)| (local.to_string(), remote.to_string())).collect()
    }

    fn pair(local: &str, remote: &str) -> (String, String) {
        (local.into(), remote.into())
    }

    #[test]
    fn two_networks_two_paths() {
        let found =
            pairs(&["10.0.0.1", "10.0.1.1"], &["10.0.0.2:9", "10.0.1.2:9"], &[("10.0.0.1", "10.0.0.2:9")]);
        assert_eq!(found, [pair("10.0.1.1", "10.0.1.2:9")]);
    }

    #[test]
    fn one_end_alone_has_several() {
        let found =
            pairs(&["192.168.1.5", "100.64.3.9"], &["203.0.113.1:9"], &[("192.168.1.5", "203.0.113.1:9")]);
        assert_eq!(found, [pair("100.64.3.9", "203.0.113.1:9")]);
        let found = pairs(
            &["192.168.1.5"],
            &["203.0.113.1:9", "198.51.100.1:9"],
            &[("192.168.1.5", "203.0.113.1:9")],
        );
        assert_eq!(found, [pair("192.168.1.5", "198.51.100.1:9")]);
    }

    #[test]
    fn families_do_not_mix() {
        let found = pairs(&["2001:db8::1"], &["203.0.113.1:9"], &[]);
        assert!(found.is_empty());
        let found = pairs(
            &["2001:db8::1", "192.0.2.1"],
            &["203.0.113.1:9", "[2001:db8:1::1]:9"],
            &[("192.0.2.1", "203.0.113.1:9")],
        );
        assert_eq!(found, [pair("2001:db8::1", "[2001:db8:1::1]:9")]);
    }
}
