//! Datagrams of a session. Each belongs to a context, a number that its sender has chosen for a pair of addresses and
//! uses for no other. A context is announced in a message of its own, which is reliable, and in front of each datagram
//! until the peer has that message. Then a datagram costs the number: one byte for the first 16 contexts, two for the
//! first 4,096.

use std::net::SocketAddr;

use bytes::{Buf, BufMut, Bytes};

use super::capabilities::Capabilities;
use super::fields::Malformed;
use super::manner::{Cap, Manner};
use super::opening::Opening;
use super::target::Target;

const WHAT: &str = "datagram message";
const PLAIN: u64 = 0;
const ANNOUNCED: u64 = 1;
const ANNOUNCEMENT: u64 = 2;
const REFUSED: u64 = 3;
/// The code of this kind that refuses nothing: see [`Datagram::Compresses`].
const COMPRESSES: u8 = 4;
const KINDS: u64 = 4;
/// The codes behind `REFUSED` with which the number is that of a stream.
const PRIORITY: u8 = 16;
const RESTART: u8 = 17;
const CAP: u8 = 18;
/// The codes behind `REFUSED` that concern the session. An earlier version takes them for refusals of a context, so their number is
/// one that no context has.
const CAPABILITIES: u8 = 32;
const GATHERED: u8 = 33;
/// The largest number of a context: with the kind, it is a variable-length integer of RFC 9000 section 16.
const LARGEST: u64 = (1 << 60) - 1;

/// The number of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(pub u64);

/// The pair of ends that a context stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    /// The program that the datagrams belong to, at the near end.
    pub program: SocketAddr,
    /// The other end of the datagrams: where they go, or come from.
    pub remote: Target,
    /// Whether they go to the program, from the remote. Otherwise they come from the program.
    pub to_program: bool,
    /// The manner in which the sender asks the receiver to send replies.
    pub manner: Manner,
    /// The proxy that has heard them on a link, if the remote is a group. They are sent on there, and nothing comes back.
    pub heard_by: Option<ProxyInstance>,
}

/// The mark of a proxy that carries groups: random bytes, chosen when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProxyInstance(pub [u8; 16]);

/// The field of an announcement for datagrams that go to the program.
const TO_PROGRAM: u8 = 130;
/// The field of an announcement for datagrams to a group.
const HEARD_BY: u8 = 132;

/// Why a context's datagrams are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was never announced, or is forgotten: announce it again.
    Unknown,
    /// The far end does not let this peer send there.
    Denied,
    /// There are too many.
    Limit,
    /// The target's name was not found, or nothing can be sent to it.
    Unusable,
}

/// A message about datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// A datagram.
    Plain(Context, Bytes),
    /// A datagram with what its context stands for.
    Announced(Context, Announcement, Bytes),
    /// A new context, and the ends that it stands for.
    Announcement(Context, Announcement),
    /// The receiver does not take a context's datagrams.
    Refused(Context, Refusal),
    /// The sender's wish for the priority of a stream that it has opened, from now on. None: the default.
    Priority(u64, Option<u8>),
    /// The sender needs a new context in the direction to it of a compressed stream.
    Restart(u64),
    /// The sender's wish for the cap of a stream that it has opened, from now on. Only for peers that understand it.
    Cap(u64, Option<Cap>),
    /// The capabilities of the sender.
    Capabilities(Capabilities),
    /// Several datagrams: see [`Gathered`](super::Gathered). Only for peers that understand it.
    Gathered(Bytes),
    /// The receiver takes a context's datagrams compressed, too, as its announcement says, under the next number.
    Compresses(Context),
}

impl Announcement {
    /// Announces datagrams from a remote to a program.
    pub fn to_program(program: SocketAddr, remote: Target, manner: Manner) -> Self {
        Self { program, remote, to_program: true, manner, heard_by: None }
    }

    /// Announces datagrams from a program to a remote.
    pub fn of_program(program: SocketAddr, remote: Target, manner: Manner) -> Self {
        Self { program, remote, to_program: false, manner, heard_by: None }
    }

    /// Announces datagrams from a program to a group, as this proxy has heard them.
    pub fn of_group(program: SocketAddr, group: Target, heard_by: ProxyInstance, manner: Manner) -> Self {
        Self { heard_by: Some(heard_by), ..Self::of_program(program, group, manner) }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes =
            Opening { target: self.remote.clone(), source: Some(self.program), manner: self.manner }
                .to_bytes();
        if self.to_program {
            bytes.extend_from_slice(&[TO_PROGRAM, 0, 0]);
        }
        if let Some(ProxyInstance(mark)) = self.heard_by {
            bytes.extend_from_slice(&[HEARD_BY, 0, mark.len() as u8]);
            bytes.extend_from_slice(&mark);
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let (mut to_program, mut heard_by) = (false, None);
        let Opening { target, source, manner } = Opening::with(bytes, |kind, value| match kind {
            TO_PROGRAM => {
                to_program = true;
                true
            }
            HEARD_BY => {
                heard_by = value.try_into().ok().map(ProxyInstance);
                heard_by.is_some()
            }
            _ => false,
        })?;
        Ok(Self { program: source.ok_or(Malformed(WHAT))?, remote: target, to_program, manner, heard_by })
    }
}

impl Context {
    /// Returns the number under which compressed datagrams of this context travel.
    pub fn compressed(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the context whose compressed datagrams would travel under this number.
    pub fn uncompressed(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl Refusal {
    const ALL: [Self; 4] = [Self::Unknown, Self::Denied, Self::Limit, Self::Unusable];
}

impl Datagram {
    /// Returns the message as bytes.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Plain(context, payload) => joined(*context, PLAIN, &[], payload),
            Self::Announced(context, announcement, payload) => {
                let fields = announcement.to_bytes();
                let head = [&(fields.len() as u16).to_be_bytes(), &fields[..]].concat();
                joined(*context, ANNOUNCED, &head, payload)
            }
            Self::Announcement(context, announcement) => {
                joined(*context, ANNOUNCEMENT, &announcement.to_bytes(), &[])
            }
            Self::Refused(context, refusal) => {
                let code = Refusal::ALL.iter().position(|known| known == refusal).unwrap_or(0);
                joined(*context, REFUSED, &[code as u8], &[])
            }
            Self::Priority(stream, priority) => {
                joined(Context(*stream), REFUSED, &[PRIORITY], priority.as_slice())
            }
            Self::Restart(stream) => joined(Context(*stream), REFUSED, &[RESTART], &[]),
            Self::Compresses(context) => joined(*context, REFUSED, &[COMPRESSES], &[]),
            Self::Cap(stream, cap) => {
                let cap = cap.map(Cap::to_bytes).unwrap_or_default();
                joined(Context(*stream), REFUSED, &[CAP], &cap)
            }
            Self::Capabilities(all) => joined(Context(LARGEST), REFUSED, &[CAPABILITIES], &all.to_bytes()),
            // Only those who understand it get one, so its number may be short.
            Self::Gathered(content) => joined(Context(0), REFUSED, &[GATHERED], content),
        }
    }

    /// Reads a message. The payload is not copied.
    ///
    /// # Errors
    /// It is malformed.
    pub fn from_bytes(mut bytes: Bytes) -> Result<Self, Malformed> {
        let number = take_number(&mut bytes).ok_or(Malformed(WHAT))?;
        let context = Context(number / KINDS);
        match number % KINDS {
            PLAIN => Ok(Self::Plain(context, bytes)),
            ANNOUNCED => {
                let length = usize::from(bytes.try_get_u16().map_err(|_| Malformed(WHAT))?);
                if length > bytes.len() {
                    return Err(Malformed(WHAT));
                }
                let fields = bytes.split_to(length);
                Ok(Self::Announced(context, Announcement::from_bytes(&fields)?, bytes))
            }
            ANNOUNCEMENT => Ok(Self::Announcement(context, Announcement::from_bytes(&bytes)?)),
            _ => {
                let code = bytes.first().ok_or(Malformed(WHAT))?;
                let rest = &bytes[1..];
                match *code {
                    PRIORITY => return Ok(Self::Priority(context.0, rest.first().copied())),
                    CAP if rest.is_empty() => return Ok(Self::Cap(context.0, None)),
                    CAP => {
                        let cap = Cap::from_bytes(rest).ok_or(Malformed(WHAT))?;
                        return Ok(Self::Cap(context.0, Some(cap)));
                    }
                    CAPABILITIES => return Ok(Self::Capabilities(Capabilities::from_bytes(rest))),
                    GATHERED => return Ok(Self::Gathered(bytes.slice(1..))),
                    _ => {}
                }
                // A reason of a later version is one for which announcing it again would not help.
                let refusal = Refusal::ALL.get(usize::from(*code)).copied().unwrap_or(Refusal::Unusable);
                Ok(match *code {
                    RESTART => Self::Restart(context.0),
                    COMPRESSES => Self::Compresses(context),
                    _ => Self::Refused(context, refusal),
                })
            }
        }
    }
}

fn joined(context: Context, kind: u64, head: &[u8], payload: &[u8]) -> Bytes {
    let number = context.0.min(LARGEST) * KINDS + kind;
    let mut bytes = Vec::with_capacity(8 + head.len() + payload.len());
    write_number(&mut bytes, number);
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(payload);
    bytes.into()
}

/// Writes a number of at most 62 bits (RFC 9000 section 16): the first two bits give the length.
pub(super) fn write_number(bytes: &mut impl BufMut, number: u64) {
    match number {
        0..0x40 => bytes.put_u8(number as u8),
        0x40..0x4000 => bytes.put_u16(number as u16 | 0x4000),
        0x4000..0x4000_0000 => bytes.put_u32(number as u32 | 0x8000_0000),
        _ => bytes.put_u64(number | 0xc000_0000_0000_0000),
    }
}

pub(super) fn take_number(bytes: &mut Bytes) -> Option<u64> {
    let length = 1_usize << (bytes.first()? >> 6);
    let number = bytes.try_get_uint(length).ok()?;
    Some(number & (u64::MAX >> (64 - (8 * length - 2))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Host;

    #[test]
    fn messages_come_back_and_a_known_context_costs_a_byte_or_two() {
        let announcement = Announcement {
            program: "10.0.0.1:5000".parse().unwrap(),
            remote: "example.org:53".parse().unwrap(),
            to_program: false,
            manner: Manner { priority: Some(9), ..Manner::default() },
            heard_by: None,
        };
        let back = Announcement { to_program: true, ..announcement.clone() };
        for (number, length) in [(0, 1), (15, 1), (16, 2), (4_095, 2), (4_096, 4), (1 << 28, 8), (LARGEST, 8)]
        {
            let context = Context(number);
            let payload = Bytes::from_static(b"payload");
            let plain = Datagram::Plain(context, payload.clone());
            assert_eq!(plain.to_bytes().len(), length + payload.len());
            let echo = Announcement {
                remote: Target { port: 0, host: Host::new("fd00::1").unwrap() },
                ..back.clone()
            };
            for message in [
                plain,
                Datagram::Announcement(context, echo),
                Datagram::Announcement(
                    context,
                    Announcement { heard_by: Some(ProxyInstance([9; 16])), ..announcement.clone() },
                ),
                Datagram::Plain(context, Bytes::new()),
                Datagram::Announced(context, announcement.clone(), payload),
                Datagram::Announcement(context, announcement.clone()),
                Datagram::Announcement(context, back.clone()),
                Datagram::Refused(context, Refusal::Denied),
                Datagram::Priority(number, None),
                Datagram::Priority(number, Some(7)),
                Datagram::Restart(number),
                Datagram::Cap(number, None),
                Datagram::Cap(number, Some(Cap { group: 7, rate: 9 })),
                Datagram::Compresses(context),
            ] {
                assert_eq!(Datagram::from_bytes(message.to_bytes()), Ok(message));
            }
        }
    }

    #[test]
    fn an_earlier_version_takes_capabilities_for_the_refusal_of_no_context() {
        for all in [Capabilities::default(), Capabilities::OURS] {
            let message = Datagram::Capabilities(all).to_bytes();
            // Its first 8 bytes are the number, of kind 3.
            assert_eq!(message[..8], ((LARGEST * KINDS + REFUSED) | 0xc000_0000_0000_0000).to_be_bytes());
            assert!(message[8] >= 32, "no code that an earlier version knows");
            assert_eq!(Datagram::from_bytes(message), Ok(Datagram::Capabilities(all)));
        }
        assert_eq!(Capabilities::from_bytes(&[99, 2, 77]), Capabilities { caps: false, gathered: true });
    }

    #[test]
    fn what_is_cut_off_is_malformed() {
        for wrong in [&[][..], &[0x40], &[1], &[1, 0], &[1, 0, 9, 1], &[2], &[3], &[0xc0, 1, 2]] {
            assert!(Datagram::from_bytes(Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
    }
}
