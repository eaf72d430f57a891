//! The opening of a TCP flow: it travels with the stream's first bytes.

use std::net::SocketAddr;
use std::time::Duration;

use whimbrel::Service;

use super::fields::{self, Malformed, Writer};
use super::manner::{Cap, Compression, Manner};
use super::target::{Host, Target};

const ADDRESS: u8 = 128;
const NAME: u8 = 129;
/// An address without a port: of ICMP.
const ECHO: u8 = 131;
const SOURCE: u8 = 1;
const PRIORITY: u8 = 2;
const LIFETIME: u8 = 3;
const COMPRESSION: u8 = 4;
const SERVICE: u8 = 5;
const CAP: u8 = 6;
const GATHER: u8 = 7;
const WHAT: &str = "opening";

/// The target and the owner of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The target.
    pub target: Target,
    /// The address of the program, as the near proxy sees it.
    pub source: Option<SocketAddr>,
    /// The manner in which the near end asks the far end to send.
    pub manner: Manner,
}

impl Opening {
    /// Returns the opening as bytes: at most 353.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let port = self.target.port;
        match &self.target.host {
            Host::Ip(ip) if port == 0 => writer.put(ECHO, &fields::ip_bytes(*ip)),
            Host::Ip(ip) => writer.put(ADDRESS, &fields::address_bytes((*ip, port).into())),
            Host::Name(name) => {
                let value = [&port.to_be_bytes(), name.as_bytes()].concat();
                writer.put(NAME, &value);
            }
        }
        if let Some(source) = self.source {
            writer.put(SOURCE, &fields::address_bytes(source));
        }
        if let Some(priority) = self.manner.priority {
            writer.put(PRIORITY, &[priority]);
        }
        if let Some(lifetime) = self.manner.lifetime {
            let millis = u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX);
            writer.put(LIFETIME, &millis.to_be_bytes());
        }
        if let Some(compression) = self.manner.compression {
            writer.put(COMPRESSION, &compression.to_bytes());
        }
        if let Some(service) = self.manner.service {
            writer.put(SERVICE, &[service.index() as u8]);
        }
        if let Some(cap) = self.manner.cap {
            writer.put(CAP, &cap.to_bytes());
        }
        if let Some(gather) = self.manner.gather {
            let micros = u32::try_from(gather.as_micros()).unwrap_or(u32::MAX);
            writer.put(GATHER, &micros.to_be_bytes());
        }
        writer.finish()
    }

    /// Reads an opening.
    ///
    /// # Errors
    /// It is malformed, or names no target or two.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let opening = Self::with(bytes, |_, _| false)?;
        if opening.target.port == 0 { Err(Malformed(WHAT)) } else { Ok(opening) }
    }

    /// Reads an opening with further fields, of which `more` says whether it knows them. Its target may be one of ICMP.
    pub(super) fn with(bytes: &[u8], mut more: impl FnMut(u8, &[u8]) -> bool) -> Result<Self, Malformed> {
        let (mut target, mut source, mut manner, mut has_port) = (None, None, Manner::default(), true);
        fields::read(bytes, WHAT, |kind, value| {
            let found = match kind {
                ADDRESS => Target::from(fields::address(value).ok_or(Malformed(WHAT))?),
                NAME => name(value).ok_or(Malformed(WHAT))?,
                ECHO => {
                    has_port = false;
                    Target { host: fields::ip(value).ok_or(Malformed(WHAT))?.into(), port: 0 }
                }
                SOURCE => {
                    source = Some(fields::address(value).ok_or(Malformed(WHAT))?);
                    return Ok(true);
                }
                PRIORITY => {
                    let [priority] = value else { return Err(Malformed(WHAT)) };
                    manner.priority = Some(*priority);
                    return Ok(true);
                }
                LIFETIME => {
                    let millis = value.try_into().map(u32::from_be_bytes).map_err(|_| Malformed(WHAT))?;
                    manner.lifetime = Some(Duration::from_millis(millis.into()));
                    return Ok(true);
                }
                COMPRESSION => {
                    manner.compression = Compression::from_bytes(value);
                    return Ok(true);
                }
                SERVICE => {
                    let [service] = value else { return Err(Malformed(WHAT)) };
                    manner.service = Service::ALL.get(usize::from(*service)).copied();
                    return Ok(true);
                }
                CAP => {
                    manner.cap = Some(Cap::from_bytes(value).ok_or(Malformed(WHAT))?);
                    return Ok(true);
                }
                GATHER => {
                    let micros = value.try_into().map(u32::from_be_bytes).map_err(|_| Malformed(WHAT))?;
                    manner.gather = Some(Duration::from_micros(micros.into()));
                    return Ok(true);
                }
                _ => return Ok(more(kind, value)),
            };
            match target.replace(found) {
                None => Ok(true),
                Some(_) => Err(Malformed(WHAT)),
            }
        })?;
        let target = target.filter(|target: &Target| (target.port > 0) == has_port).ok_or(Malformed(WHAT))?;
        Ok(Self { target, source, manner })
    }
}

fn name(value: &[u8]) -> Option<Target> {
    let (port, name) = value.split_first_chunk::<2>()?;
    let host = Host::new(std::str::from_utf8(name).ok()?)?;
    Some(Target { host, port: u16::from_be_bytes(*port) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_comes_back() {
        for target in ["example.org:443", "192.0.2.7:53", "[2001:db8::7]:22"] {
            for source in [None, Some("10.0.0.1:40000".parse().unwrap())] {
                let manner = Manner {
                    priority: source.map(|_| 7),
                    lifetime: source.map(|_| Duration::from_millis(250)),
                    compression: source.map(|_| Compression {
                        method: "xz:2".parse().unwrap(),
                        dictionary: None,
                        plain: 5,
                    }),
                    service: source.map(|_| Service::ReliableUnsequenced),
                    cap: source.map(|_| Cap { group: u64::MAX, rate: 1 }),
                    gather: source.map(|_| Duration::from_micros(2_500)),
                };
                let opening = Opening { target: target.parse().unwrap(), source, manner };
                assert_eq!(Opening::from_bytes(&opening.to_bytes()), Ok(opening));
            }
        }
    }

    #[test]
    fn an_opening_that_asks_for_what_is_not_known_asks_for_nothing() {
        let target = "example.org:443".parse().unwrap();
        let plain = Opening { target, source: None, manner: Manner::default() };
        for value in [&[][..], &[77, 1, 0, 0, 0, 0], &[3, 3, 0, 0, 0, 0, 1, 2, 3]] {
            let mut writer = Writer::default();
            writer.put(COMPRESSION, value);
            let bytes = [plain.to_bytes(), writer.finish()].concat();
            assert_eq!(Opening::from_bytes(&bytes).as_ref(), Ok(&plain), "{value:?}");
        }
    }

    #[test]
    fn what_is_no_opening_is_refused() {
        let target = "example.org:443".parse().unwrap();
        let good = Opening { target, source: None, manner: Manner::default() }.to_bytes();
        let twice = [good.clone(), good.clone()].concat();
        for wrong in [
            &[][..],
            &good[..good.len() - 1],
            &twice,
            &[NAME, 0, 3, 0, 80, b'\n'],
            &[ADDRESS, 0, 6, 1, 2, 3, 4, 0, 0],
            &[&good[..], &[CAP, 0, 16], &[0; 16]].concat(),
            &[&good[..], &[CAP, 0, 1, 9]].concat(),
            &[&good[..], &[GATHER, 0, 1, 9]].concat(),
            &[&good[..], &[SERVICE, 0, 0]].concat(),
        ] {
            assert_eq!(Opening::from_bytes(wrong), Err(Malformed(WHAT)), "{wrong:?}");
        }
        // Any bytes do no harm.
        for seed in 0..2_000_u32 {
            let bytes: Vec<u8> = (0..seed % 40)
                .map(|at| (seed.wrapping_mul(2_654_435_761).rotate_left(at) >> 7) as u8)
                .collect();
            drop(Opening::from_bytes(&bytes));
        }
    }
}
