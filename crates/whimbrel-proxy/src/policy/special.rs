//! Addresses that mean the host itself or its link. A list of networks does not include them unless it names them.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

/// Networks that a wider one does not include: this host, its link, cloud metadata, groups and broadcast (RFC 6890).
const SPECIAL: [&str; 16] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "fe80::/10",
    "ff00::/8",
    "fec0::/10",
    "192.0.0.0/24",
    // Hosts translate these to whatever their network says (RFC 8215).
    "64:ff9b:1::/48",
    // Metadata services of clouds, beside those on the link.
    "100.100.100.200/32",
    "168.63.129.16/32",
    "fd00:ec2::254/128",
    "fd20:ce::254/128",
];

/// The same, read once: each reply to a program is compared with them.
static NETWORKS: LazyLock<Vec<IpNet>> =
    LazyLock::new(|| SPECIAL.iter().filter_map(|text| text.parse().ok()).collect());

/// Returns the special network that an address is in.
fn special_network(ip: IpAddr) -> Option<IpNet> {
    let ip = embedded(ip.to_canonical());
    NETWORKS.iter().copied().find(|network| network.contains(&ip))
}

/// Returns whether an address means this host, its link, or a group.
pub fn is_special(ip: IpAddr) -> bool {
    special_network(ip).is_some()
}

/// Returns whether `network` includes `ip`: a special address only if the network lies within its special network.
pub(super) fn includes(network: &IpNet, ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    network.contains(&ip)
        && special_network(ip).is_none_or(|special| {
            special.contains(network) || network.prefix_len() == network.max_prefix_len()
        })
}

/// The IPv4 address in an IPv6 address that some hosts take for it: compatible (RFC 4291 section 2.5.5.1), translated
/// (RFC 6052 section 2.1) or 6to4 (RFC 3056).
fn embedded(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::from([a, b, c, d])
    };
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0] if v6 != Ipv6Addr::LOCALHOST && v6 != Ipv6Addr::UNSPECIFIED => of(g, h),
        [0x64, 0xff9b, 0, 0, 0, 0] | [0, 0, 0, 0, 0xffff, 0] => of(g, h),
        // ISATAP (RFC 5214).
        [.., 0 | 0x200, 0x5efe] => of(g, h),
        [0x2002, ..] => of(b, c),
        _ => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_special_networks_are_read() {
        assert_eq!(NETWORKS.len(), SPECIAL.len());
    }

    #[test]
    fn a_wide_network_has_no_special_address_and_a_narrow_one_its_own() {
        let has = |network: &str, ip: &str| includes(&network.parse().unwrap(), ip.parse().unwrap());
        for special in
            ["127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "224.0.0.251", "255.255.255.255"]
        {
            assert!(!has("0.0.0.0/0", special), "{special}");
            assert!(!has("0.0.0.0/0", &format!("::ffff:{special}")), "{special}");
        }
        for special in [
            "::1",
            "::",
            "fe80::1",
            "ff02::fb",
            "fd00:ec2::254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fd20:ce::254",
            "64:ff9b:1::7f00:1",
            "::ffff:0:7f00:1",
            "2001:db8::5efe:7f00:1",
            "fec0::1",
        ] {
            assert!(!has("::/0", special), "{special}");
        }
        for (network, ip) in [
            ("127.0.0.0/8", "127.0.0.1"),
            ("127.0.0.1/32", "127.0.0.1"),
            ("::1/128", "::1"),
            ("fe80::/10", "fe80::1"),
            ("0.0.0.0/0", "8.8.8.8"),
            ("::/0", "2001:db8::1"),
            ("10.0.0.0/8", "::ffff:10.1.1.1"),
        ] {
            assert!(has(network, ip), "{network} {ip}");
        }
        assert!(!has("127.0.0.1/32", "127.0.0.2"));
    }
}
