//! An attacker on the path without keys, who keeps packets and sends them again, later, from elsewhere, or to the
//! wrong server.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use whimbrel_proto::Time;

use super::special::View;
use crate::pair::End;
use crate::world::{SERVER, TapVerdict};

/// The packets kept: the first ones, which belong to the handshake, and the newest.
const FIRST: usize = 8;
const NEWEST: usize = 400;
/// An address that nobody has.
const ELSEWHERE: ([u8; 4], u16) = ([192, 0, 2, 66], 6666);

/// A packet that the attacker has seen.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) sent: Time,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

impl Packet {
    /// The end that sent it, derived from its address, which contains the node's number.
    fn sender(&self) -> End {
        let node = match self.from.ip() {
            IpAddr::V4(ip) => usize::from(ip.octets()[3]),
            IpAddr::V6(_) => SERVER,
        };
        if node == SERVER { End::Server } else { End::Client }
    }

    /// Returns whether the packet is sealed, and not part of a handshake.
    fn is_sealed(&self) -> bool {
        self.bytes.first().is_some_and(|first| first & 0x80 == 0)
    }
}

/// Something that is done to packets for a while.
#[derive(Clone, Copy, Debug)]
struct Doing<T> {
    what: T,
    every: u32,
    until: Time,
    count: u32,
}

impl<T> Doing<T> {
    /// Counts a packet and returns whether it is affected.
    fn takes(&mut self, now: Time) -> bool {
        self.count += 1;
        now < self.until && self.count.is_multiple_of(self.every)
    }
}

/// The attacker.
#[derive(Debug, Default)]
pub(super) struct Attacker {
    first: Vec<Packet>,
    newest: VecDeque<Packet>,
    hold: Option<Doing<(View, Duration, bool)>>,
    stray: Option<Doing<bool>>,
    /// Packets that arrive later, and packets for the wrong server.
    held: Vec<(Time, Packet)>,
    strays: Vec<Packet>,
}

impl Attacker {
    pub(super) fn see(&mut self, now: Time, packet: Packet) -> TapVerdict {
        let sender = packet.sender();
        self.keep(packet.clone());
        if let Some(stray) = self.stray.as_mut().filter(|_| sender == End::Client && packet.is_sealed())
            && stray.takes(now)
        {
            self.strays.push(packet);
            return if stray.what { TapVerdict::Drop } else { TapVerdict::Pass };
        }
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.what.0.sees(sender))
            && hold.takes(now)
        {
            let (_, later, elsewhere) = hold.what;
            self.held.push((now + later, moved(packet, elsewhere)));
            return TapVerdict::Drop;
        }
        TapVerdict::Pass
    }

    fn keep(&mut self, packet: Packet) {
        if self.first.len() < FIRST {
            self.first.push(packet);
            return;
        }
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(packet);
    }

    /// Packets that have passed, the newest last.
    pub(super) fn past(&self, view: View, back: u32, count: u32) -> Vec<Packet> {
        let seen = self.first.iter().chain(&self.newest).filter(|packet| view.sees(packet.sender()));
        let seen: Vec<&Packet> = seen.collect();
        let end = seen.len().saturating_sub(back as usize).max(seen.len().min(FIRST));
        let begin = end.saturating_sub(count as usize);
        seen[begin..end].iter().map(|packet| (*packet).clone()).collect()
    }

    /// Holds packets back from now on: one of `every`, each for `later`.
    pub(super) fn hold(&mut self, what: (View, Duration, bool), every: u32, until: Time) {
        self.hold = Some(Doing { what, every, until, count: 0 });
    }

    /// Leads packets to the wrong server from now on: one of `every`, which with `only` goes just there.
    pub(super) fn stray(&mut self, only: bool, every: u32, until: Time) {
        self.stray = Some(Doing { what: only, every, until, count: 0 });
    }

    /// Removes and returns the packets for the wrong server.
    pub(super) fn take_strays(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.strays)
    }

    /// Stops all interference. What is held is due at once.
    pub(super) fn calm(&mut self) {
        (self.hold, self.stray) = (None, None);
        self.held.iter_mut().for_each(|(at, _)| *at = Time::ZERO);
    }

    /// Removes and returns the packets due at `now`.
    pub(super) fn due(&mut self, now: Time) -> Vec<Packet> {
        let (due, held) = self.held.drain(..).partition(|(at, _)| *at <= now);
        self.held = held;
        let due: Vec<(Time, Packet)> = due;
        due.into_iter().map(|(_, packet)| packet).collect()
    }
}

/// A packet, from an address that nobody has if it comes from `elsewhere`.
pub(super) fn moved(packet: Packet, elsewhere: bool) -> Packet {
    if elsewhere { Packet { from: ELSEWHERE.into(), ..packet } } else { packet }
}
