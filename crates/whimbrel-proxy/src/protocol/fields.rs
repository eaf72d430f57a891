//! Fields of openings and announcements: a type, a length and a value each.
//!
//! A receiver that does not know a type below 128 passes over it. A type from 128 on that is not known makes the whole
//! unusable, so a later version can add fields of either kind.

use std::net::{IpAddr, SocketAddr};

/// A message of the peer that breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer's {0} is malformed")]
pub struct Malformed(pub &'static str);

/// The first type that must be known.
const CRITICAL: u8 = 128;

/// Appends fields.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn put(&mut self, kind: u8, value: &[u8]) {
        debug_assert!(u16::try_from(value.len()).is_ok(), "no field is longer");
        self.0.push(kind);
        self.0.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.0.extend_from_slice(value);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Calls `take` with the type and value of each field. It returns whether it knows the type.
pub(super) fn read(
    mut bytes: &[u8],
    what: &'static str,
    mut take: impl FnMut(u8, &[u8]) -> Result<bool, Malformed>,
) -> Result<(), Malformed> {
    while let Some((&kind, rest)) = bytes.split_first() {
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(Malformed(what))?;
        let (value, rest) =
            rest.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(Malformed(what))?;
        if !take(kind, value)? && kind >= CRITICAL {
            return Err(Malformed(what));
        }
        bytes = rest;
    }
    Ok(())
}

/// Returns an address and a port as 6 or 18 bytes.
pub(super) fn address_bytes(address: SocketAddr) -> Vec<u8> {
    let mut bytes = ip_bytes(address.ip());
    bytes.extend_from_slice(&address.port().to_be_bytes());
    bytes
}

/// Reads an address and a port of 6 or 18 bytes.
pub(super) fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk::<2>()?;
    Some((self::ip(ip)?, u16::from_be_bytes(*port)).into())
}

/// Returns an address as 4 or 16 bytes.
pub(super) fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Reads an address of 4 or 16 bytes.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_passed_over_unless_they_are_critical() {
        let mut known = Vec::new();
        let mut take = |kind: u8, value: &[u8]| {
            known.push((kind, value.to_vec()));
            Ok(kind == 1)
        };
        let mut writer = Writer::default();
        writer.put(7, b"later");
        writer.put(1, b"now");
        let bytes = writer.finish();
        read(&bytes, "x", &mut take).unwrap();
        assert_eq!(known, [(7, b"later".to_vec()), (1, b"now".to_vec())]);
        for wrong in [&[200, 0, 0][..], &[1], &[1, 0], &[1, 0, 2, 9]] {
            assert_eq!(read(wrong, "x", |kind, _| Ok(kind == 1)), Err(Malformed("x")), "{wrong:?}");
        }
    }

    #[test]
    fn addresses_come_back() {
        for text in ["192.0.2.7:443", "[2001:db8::7]:53"] {
            let there: SocketAddr = text.parse().unwrap();
            assert_eq!(address(&address_bytes(there)), Some(there));
        }
        assert_eq!(address(&[1, 2, 3]), None);
    }
}
