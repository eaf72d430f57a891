//! Resolving host names to addresses.

use std::net::SocketAddr;

use whimbrel_proto::Url;

use crate::error::ConnectError;

/// Resolves the peer's addresses that a socket bound to `local` can reach, in the order in which to try them. None:
/// addresses of both families can be reached.
pub(crate) async fn resolve(url: &Url, local: Option<SocketAddr>) -> Result<Vec<SocketAddr>, ConnectError> {
    let failed = |error| ConnectError::Resolve { host: url.host.clone(), error };
    let found: Vec<_> =
        tokio::net::lookup_host((url.host.as_str(), url.port)).await.map_err(failed)?.collect();
    let usable =
        in_turn(found.iter().copied().filter(|address| local.is_none_or(|local| reaches(local, *address))));
    match (usable.is_empty(), local, found.first()) {
        (false, ..) => Ok(usable),
        (true, Some(local), Some(_)) => Err(ConnectError::Family { host: url.host.clone(), local }),
        _ => Err(failed(std::io::Error::other("it has no address"))),
    }
}

/// Returns whether a socket bound to `local` can send there. One that is bound to all IPv6 addresses reaches both
/// families.
fn reaches(local: SocketAddr, remote: SocketAddr) -> bool {
    let (local, remote) = (local.ip().to_canonical(), remote.ip().to_canonical());
    local.is_ipv4() == remote.is_ipv4() || local.is_ipv6() && local.is_unspecified()
}

/// Removes duplicates and alternates between the families (RFC 8305 section 4). If one family does not work, the next
/// address is of the other.
fn in_turn(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    let first_family = all.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = all.iter().partition(|address| address.is_ipv6() == first_family);
    let turn = |at: usize| first.get(at).into_iter().chain(second.get(at));
    (0..all.len()).flat_map(turn).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_reaches_its_family_and_all_of_ipv6_reaches_both() {
        let reaches = |local: &str, remote: &str| reaches(local.parse().unwrap(), remote.parse().unwrap());
        let (four, six) = ("192.0.2.1:9", "[2001:db8::1]:9");
        assert!(reaches("[::]:0", four) && reaches("[::]:0", six));
        assert!(!reaches("[::1]:0", four) && reaches("[::1]:0", six));
        assert!(reaches("0.0.0.0:0", four) && !reaches("0.0.0.0:0", six));
        assert!(reaches("[::ffff:127.0.0.1]:0", four));
    }

    #[test]
    fn families_take_turns() {
        let addresses =
            |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = ["[::1]:1", "[::2]:1", "[::1]:1", "[::3]:1", "1.0.0.1:1", "1.0.0.2:1"];
        let wanted = ["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"];
        assert_eq!(in_turn(addresses(&found).into_iter()), addresses(&wanted));
        assert!(in_turn(std::iter::empty()).is_empty());
    }
}
