//! ICMP packets of a far end: the request that goes out, and what comes back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::protocol::EchoError;

const V4_REQUEST: u8 = 8;
const V6_REQUEST: u8 = 128;
/// The lengths of an IPv6 header, and of what all messages of ICMP begin with.
const V6_HEADER: usize = 40;
const HEADER: usize = 8;

/// The answer to a request with this identifier and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Back<'a> {
    pub(super) id: u16,
    pub(super) number: u16,
    pub(super) what: EchoAnswer<'a>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EchoAnswer<'a> {
    Reply(&'a [u8]),
    /// The request went to this address.
    Error(EchoError, IpAddr),
}

/// Returns an echo request. The kernel sets the checksum of one over IPv6.
pub(super) fn request(is_v4: bool, id: u16, number: u16, data: &[u8]) -> Vec<u8> {
    let ([a, b], [c, d]) = (id.to_be_bytes(), number.to_be_bytes());
    let kind = if is_v4 { V4_REQUEST } else { V6_REQUEST };
    let mut packet = [&[kind, 0, 0, 0, a, b, c, d], data].concat();
    if is_v4 {
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Reads what a socket has received: a packet, or only its content. `None`: it is something else.
pub(super) fn read(is_v4: bool, packet: &[u8]) -> Option<Back<'_>> {
    let packet = if is_v4 { without_v4_header(packet)? } else { packet };
    let (head, rest) = packet.split_first_chunk::<HEADER>()?;
    let [kind, code, _, _, a, b, c, d] = *head;
    let error = match (is_v4, kind, code) {
        (true, 0, _) | (false, 129, _) => {
            let (id, number) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            return Some(Back { id, number, what: EchoAnswer::Reply(rest) });
        }
        (true, 11, _) | (false, 3, _) => EchoError::TimeExceeded,
        (true, 3, 0 | 6) | (false, 1, 0) => EchoError::Network,
        (true, 3, 9 | 10 | 13) | (false, 1, 1) => EchoError::Prohibited,
        // A packet that is too long is the sender's to split, which is this host.
        (true, 3, 4) => return None,
        (true, 3, _) | (false, 1, _) => EchoError::Host,
        _ => return None,
    };
    let (target, original) = if is_v4 {
        let target: [u8; 4] = rest.get(16..20)?.try_into().ok()?;
        (IpAddr::from(Ipv4Addr::from(target)), without_v4_header(rest)?)
    } else {
        let target: [u8; 16] = rest.get(24..V6_HEADER)?.try_into().ok()?;
        (IpAddr::from(Ipv6Addr::from(target)), rest.get(V6_HEADER..)?)
    };
    let [kind, _, _, _, a, b, c, d] = *original.first_chunk::<HEADER>()?;
    let is_request = kind == if is_v4 { V4_REQUEST } else { V6_REQUEST };
    is_request.then(|| Back {
        id: u16::from_be_bytes([a, b]),
        number: u16::from_be_bytes([c, d]),
        what: EchoAnswer::Error(error, target),
    })
}

/// Some kinds of sockets receive the header, too. No message of ICMP that matters begins as one does.
fn without_v4_header(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    if first >> 4 == 4 { packet.get(usize::from(first & 15) * 4..) } else { Some(packet) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: [u8; 20] = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1];

    #[test]
    fn replies_are_read_with_and_without_a_header() {
        let request = request(true, 7, 9, b"data");
        assert_eq!(checksum(&request), 0, "what is right adds up to nothing");
        let mut reply = request.clone();
        reply[0] = 0;
        let back = Back { id: 7, number: 9, what: EchoAnswer::Reply(b"data") };
        assert_eq!(read(true, &reply).as_ref(), Some(&back));
        assert_eq!(read(true, &[&V4[..], &reply].concat()), Some(back));
        assert_eq!(read(true, &request), None, "a request is no reply");
        assert_eq!(read(false, &[129, 0, 0, 0, 0, 7, 0, 9]).map(|back| back.number), Some(9));
    }

    #[test]
    fn errors_name_the_request_and_nothing_does_harm() {
        let original = [&V4[..], &request(true, 7, 9, b"data")].concat();
        for (head, wanted) in
            [([11, 0], EchoError::TimeExceeded), ([3, 1], EchoError::Host), ([3, 13], EchoError::Prohibited)]
        {
            let error = [&V4[..], &head, &[0; 6], &original].concat();
            let back = read(true, &error).unwrap();
            assert_eq!((back.id, back.number), (7, 9));
            assert_eq!(back.what, EchoAnswer::Error(wanted, "192.0.2.1".parse().unwrap()));
            for length in 0..error.len() - 4 {
                assert_eq!(read(true, &error[..length]), None, "{length}");
                read(false, &error[..length]);
            }
        }
        let mut v6 = [&[1, 3, 0, 0, 0, 0, 0, 0][..], &[0; 40], &request(false, 7, 9, b"")].concat();
        v6[32..48].copy_from_slice(&[9; 16]);
        assert_eq!(read(false, &v6).unwrap().what, EchoAnswer::Error(EchoError::Host, [9; 16].into()));
    }
}
