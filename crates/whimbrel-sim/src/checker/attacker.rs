//! An attacker on the path without keys, who keeps packets and sends them again, later, from elsewhere, or to the
//! wrong server.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use whimbrel_proto::Time;

use super::run::Run;
use super::special::{Attack, View};
use crate::pair::End;
use crate::world::{SERVER, TapVerdict};

/// The packets kept: the first ones, which belong to the handshake, and the newest.
const FIRST: usize = 8;
const NEWEST: usize = 400;
/// An address that nobody has.
const ELSEWHERE: ([u8; 4], u16) = ([192, 0, 2, 66], 6666);

#[derive(Clone, Debug)]
struct Packet {
    sent: Time,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
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
    fn see(&mut self, now: Time, packet: Packet) -> TapVerdict {
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
    fn past(&self, view: View, back: u32, count: u32) -> Vec<Packet> {
        let seen = self.first.iter().chain(&self.newest).filter(|packet| view.sees(packet.sender()));
        let seen: Vec<&Packet> = seen.collect();
        let end = seen.len().saturating_sub(back as usize).max(seen.len().min(FIRST));
        let begin = end.saturating_sub(count as usize);
        seen[begin..end].iter().map(|packet| (*packet).clone()).collect()
    }

    /// Removes and returns the packets due at `now`.
    fn due(&mut self, now: Time) -> Vec<Packet> {
        let (due, held) = self.held.drain(..).partition(|(at, _)| *at <= now);
        self.held = held;
        let due: Vec<(Time, Packet)> = due;
        due.into_iter().map(|(_, packet)| packet).collect()
    }
}

fn moved(packet: Packet, elsewhere: bool) -> Packet {
    if elsewhere { Packet { from: ELSEWHERE.into(), ..packet } } else { packet }
}

impl Run {
    /// Puts an attacker on the path, from the first packet on.
    pub(super) fn watch(&mut self) {
        let attacker = Rc::new(RefCell::new(Attacker::default()));
        self.attacker = Some(Rc::clone(&attacker));
        self.sibling = self.pair.world.add_sibling();
        self.pair.world.set_tap(Box::new(move |now, from, to, bytes| {
            attacker.borrow_mut().see(now, Packet { sent: now, from, to, bytes: bytes.clone() })
        }));
    }

    pub(super) fn attack(&mut self, attack: &Attack) {
        let (now, Some(attacker)) = (self.pair.now(), self.attacker.clone()) else { return };
        self.coverage.special(attack.special());
        let mut attacker = attacker.borrow_mut();
        match *attack {
            Attack::Replay { view, back, count, elsewhere } => {
                let past = attacker.past(view, back, count);
                drop(attacker);
                for packet in past {
                    self.inject(&moved(packet, elsewhere));
                }
            }
            Attack::Hold { view, every, time, later, elsewhere } => {
                attacker.hold =
                    Some(Doing { what: (view, later, elsewhere), every, until: now + time, count: 0 });
            }
            Attack::Stray { every, time, only } => {
                attacker.stray = Some(Doing { what: only, every, until: now + time, count: 0 });
            }
        }
    }

    /// Delivers held packets that are due, and strays to the wrong server.
    pub(super) fn let_go(&mut self) {
        let (now, Some(attacker)) = (self.pair.now(), self.attacker.clone()) else { return };
        let due = attacker.borrow_mut().due(now);
        for packet in due {
            self.inject(&packet);
        }
        let strays = std::mem::take(&mut attacker.borrow_mut().strays);
        for Packet { from, to, bytes, .. } in strays {
            self.pair.world.misdeliver(self.sibling, from, to, &bytes);
        }
    }

    /// Stops all interference.
    pub(super) fn calm(&mut self) {
        if let Some(attacker) = &self.attacker {
            let mut attacker = attacker.borrow_mut();
            (attacker.hold, attacker.stray) = (None, None);
            attacker.held.iter_mut().for_each(|(at, _)| *at = Time::ZERO);
        }
        self.let_go();
    }

    fn inject(&mut self, packet: &Packet) {
        self.model.on_held(self.pair.now().since(packet.sent));
        self.pair.world.inject(packet.from, packet.to, &packet.bytes);
    }
}
