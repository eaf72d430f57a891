//! ICMP echo between two proxies: what a datagram has in a context whose target is an address without a port.

use std::net::IpAddr;

use bytes::{Buf, Bytes};

use super::fields::{self, Malformed};

const WHAT: &str = "echo message";
const REQUEST: u8 = 0;
const REPLY: u8 = 1;
const ERROR: u8 = 2;

/// The marks by which a program knows its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EchoId {
    /// The identifier.
    pub id: u16,
    /// The number in its sequence.
    pub sequence: u16,
}

/// Why an echo request came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoError {
    /// The network cannot be reached.
    Network,
    /// The host cannot be reached.
    Host,
    /// It is not allowed there.
    Prohibited,
    /// It went through more routers than it may.
    TimeExceeded,
}

/// A message about an echo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Echo {
    /// A request. It may pass so many more routers.
    Request(EchoId, u8, Bytes),
    /// The reply of its target.
    Reply(EchoId, Bytes),
    /// An error from this host on the way.
    Error(EchoId, EchoError, IpAddr),
}

impl EchoError {
    const ALL: [Self; 4] = [Self::Network, Self::Host, Self::Prohibited, Self::TimeExceeded];
}

impl Echo {
    /// Returns the message as bytes.
    pub fn to_bytes(&self) -> Bytes {
        let head = |kind: u8, more: u8, id: &EchoId| {
            let ([a, b], [c, d]) = (id.id.to_be_bytes(), id.sequence.to_be_bytes());
            vec![kind, more, a, b, c, d]
        };
        let bytes = match self {
            Self::Request(id, hops, data) => [&head(REQUEST, *hops, id), &data[..]].concat(),
            Self::Reply(id, data) => [&head(REPLY, 0, id), &data[..]].concat(),
            Self::Error(id, what, from) => {
                let code = EchoError::ALL.iter().position(|known| known == what).unwrap_or(0);
                let mut bytes = head(ERROR, code as u8, id);
                bytes.extend(fields::ip_bytes(*from));
                bytes
            }
        };
        bytes.into()
    }

    /// Reads a message. The data is not copied.
    ///
    /// # Errors
    /// It is malformed.
    pub fn from_bytes(mut bytes: Bytes) -> Result<Self, Malformed> {
        let malformed = |_| Malformed(WHAT);
        let (kind, more) = (bytes.try_get_u8().map_err(malformed)?, bytes.try_get_u8().map_err(malformed)?);
        let id = bytes.try_get_u16().map_err(malformed)?;
        let id = EchoId { id, sequence: bytes.try_get_u16().map_err(malformed)? };
        match kind {
            REQUEST => Ok(Self::Request(id, more, bytes)),
            REPLY => Ok(Self::Reply(id, bytes)),
            ERROR => {
                // An error of a later version is one of the host.
                let what = EchoError::ALL.get(usize::from(more)).copied().unwrap_or(EchoError::Host);
                Ok(Self::Error(id, what, fields::ip(&bytes).ok_or(Malformed(WHAT))?))
            }
            _ => Err(Malformed(WHAT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_what_is_cut_off_is_malformed() {
        let id = EchoId { id: 0xbeef, sequence: 7 };
        let data = Bytes::from_static(b"data");
        for message in [
            Echo::Request(id, 64, data.clone()),
            Echo::Request(id, 0, Bytes::new()),
            Echo::Reply(id, data),
            Echo::Error(id, EchoError::TimeExceeded, "192.0.2.1".parse().unwrap()),
            Echo::Error(id, EchoError::Network, "2001:db8::1".parse().unwrap()),
        ] {
            let bytes = message.to_bytes();
            for length in 0..6 {
                assert!(Echo::from_bytes(bytes.slice(..length)).is_err(), "{length} bytes of {message:?}");
            }
            assert_eq!(Echo::from_bytes(bytes), Ok(message));
        }
        for wrong in [&[9, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0, 0, 1, 2, 3]] {
            assert!(Echo::from_bytes(Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
    }
}
