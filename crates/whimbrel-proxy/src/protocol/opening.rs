//! The opening of a TCP flow: it travels with the stream's first bytes.

use std::net::SocketAddr;

use super::fields::{self, Malformed, Writer};
use super::target::{Host, Target};

const ADDRESS: u8 = 128;
const NAME: u8 = 129;
const SOURCE: u8 = 1;
const WHAT: &str = "opening";

/// Where a flow goes, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The target.
    pub target: Target,
    /// The address of the program, as the near proxy sees it.
    pub source: Option<SocketAddr>,
}

impl Opening {
    /// Returns the opening as bytes: at most 300.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let port = self.target.port;
        match &self.target.host {
            Host::Ip(ip) => writer.put(ADDRESS, &fields::address_bytes((*ip, port).into())),
            Host::Name(name) => {
                let value = [&port.to_be_bytes(), name.as_bytes()].concat();
                writer.put(NAME, &value);
            }
        }
        if let Some(source) = self.source {
            writer.put(SOURCE, &fields::address_bytes(source));
        }
        writer.finish()
    }

    /// Reads an opening.
    ///
    /// # Errors
    /// It is malformed, or names no target or two.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::with(bytes, |_, _| false)
    }

    /// Reads an opening with further fields, of which `more` says whether it knows them.
    pub(super) fn with(bytes: &[u8], mut more: impl FnMut(u8, &[u8]) -> bool) -> Result<Self, Malformed> {
        let (mut target, mut source) = (None, None);
        fields::read(bytes, WHAT, |kind, value| {
            let found = match kind {
                ADDRESS => Target::from(fields::address(value).ok_or(Malformed(WHAT))?),
                NAME => name(value).ok_or(Malformed(WHAT))?,
                SOURCE => {
                    source = Some(fields::address(value).ok_or(Malformed(WHAT))?);
                    return Ok(true);
                }
                _ => return Ok(more(kind, value)),
            };
            match target.replace(found) {
                None => Ok(true),
                Some(_) => Err(Malformed(WHAT)),
            }
        })?;
        let target = target.filter(|target| target.port > 0).ok_or(Malformed(WHAT))?;
        Ok(Self { target, source })
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
                let opening = Opening { target: target.parse().unwrap(), source };
                assert_eq!(Opening::from_bytes(&opening.to_bytes()), Ok(opening));
            }
        }
    }

    #[test]
    fn what_is_no_opening_is_refused() {
        let good = Opening { target: "example.org:443".parse().unwrap(), source: None }.to_bytes();
        let twice = [good.clone(), good.clone()].concat();
        for wrong in [
            &[][..],
            &good[..good.len() - 1],
            &twice,
            &[NAME, 0, 3, 0, 80, b'\n'],
            &[ADDRESS, 0, 6, 1, 2, 3, 4, 0, 0],
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
