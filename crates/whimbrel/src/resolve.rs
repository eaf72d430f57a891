//! Resolving host names to addresses.

use std::net::SocketAddr;

use whimbrel_proto::Url;

use crate::error::ConnectError;

/// Resolves the peer's addresses that a socket of this family can reach, in the order in which to try them. IPv6
/// sockets reach both families.
pub(crate) async fn resolve(url: &Url, ipv6: bool) -> Result<Vec<SocketAddr>, ConnectError> {
    let failed = |error| ConnectError::Resolve { host: url.host.clone(), error };
    let found: Vec<_> =
        tokio::net::lookup_host((url.host.as_str(), url.port)).await.map_err(failed)?.collect();
    let usable = in_turn(found.iter().copied().filter(|address| ipv6 || address.is_ipv4()));
    if usable.is_empty() {
        let family = if found.is_empty() {
            "it has no address"
        } else {
            "it has IPv6 addresses only, and this socket is IPv4"
        };
        return Err(failed(std::io::Error::other(family)));
    }
    Ok(usable)
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
    fn families_take_turns() {
        let addresses =
            |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = ["[::1]:1", "[::2]:1", "[::1]:1", "[::3]:1", "1.0.0.1:1", "1.0.0.2:1"];
        let wanted = ["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"];
        assert_eq!(in_turn(addresses(&found).into_iter()), addresses(&wanted));
        assert!(in_turn(std::iter::empty()).is_empty());
    }
}
