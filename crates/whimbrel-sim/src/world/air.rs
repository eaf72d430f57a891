//! The space between nodes: addresses, links, and the packets in flight.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use whimbrel_link::Calendar;
use whimbrel_proto::{Ecn, Time};

use super::addresses::Addresses;
use super::links::{Leg, Links};
use super::node::{Departure, Entry, Outbox};
use super::tap::{Tap, TapVerdict};

/// Everything between the nodes. It takes what they send, and keeps it until it arrives.
#[derive(Default)]
pub(super) struct Air {
    pub(super) addresses: Addresses,
    pub(super) links: Links,
    flights: Calendar<Flight>,
    tap: Option<Tap>,
    stray: u64,
    to_nobody: BTreeMap<SocketAddr, u64>,
    digest: DefaultHasher,
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) to: SocketAddr,
    pub(super) from: SocketAddr,
    pub(super) ecn: Option<Ecn>,
    pub(super) bytes: Vec<u8>,
}

impl Air {
    pub(super) fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// Packets that reached no node.
    pub(super) fn stray(&self) -> u64 {
        self.stray
    }

    /// The bytes of packets to addresses that nobody had.
    pub(super) fn to_nobody(&self) -> &BTreeMap<SocketAddr, u64> {
        &self.to_nobody
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Adds something to the digest.
    pub(super) fn record(&mut self, bytes: &[u8]) {
        self.digest.write(bytes);
    }

    /// When the next packet arrives.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.flights.next_due()
    }

    /// Removes and returns a packet that has arrived, and when it did.
    pub(super) fn land(&mut self, now: Time) -> Option<(Time, Flight)> {
        self.flights.pop_due(now)
    }

    /// Notes that a packet reached no node.
    pub(super) fn on_stray(&mut self) {
        self.stray += 1;
    }

    /// Takes what a node sent and reported.
    pub(super) fn take(&mut self, now: Time, node: usize, out: &mut Outbox) {
        for entry in out.drain() {
            match entry {
                Entry::Departure(departure) => self.send(now, node, departure),
                Entry::Report(what) => (node, now, what).hash(&mut self.digest),
            }
        }
    }

    fn send(&mut self, now: Time, node: usize, departure: Departure) {
        let Departure { source, to, ecn, mut bytes } = departure;
        (node, now, to, &bytes).hash(&mut self.digest);
        let Some((receiver, network)) = self.addresses.owner(to) else {
            *self.to_nobody.entry(to).or_default() += bytes.len() as u64;
            return self.on_stray();
        };
        let Some(from) = self.addresses.sends_from(node, network, source) else { return self.on_stray() };
        let verdict = self.tap.as_mut().map_or(TapVerdict::Pass, |tap| tap(now, from, to, &mut bytes));
        if verdict == TapVerdict::Drop {
            return;
        }
        let Some(leg) = self.links.leg((node, receiver, network)) else { return self.on_stray() };
        self.launch(now, leg, Flight { to, from, ecn, bytes }, verdict.copies());
    }

    /// Sends copies of a packet over a leg.
    fn launch(&mut self, now: Time, leg: Leg, mut flight: Flight, copies: u32) {
        for copy in 1..=copies {
            let arrivals = self.links.push(leg, now, flight.bytes.len(), flight.ecn.is_some());
            let mut arrivals = arrivals.peekable();
            while let Some(arrival) = arrivals.next() {
                let is_last = copy == copies && arrivals.peek().is_none();
                let bytes = if is_last { std::mem::take(&mut flight.bytes) } else { flight.bytes.clone() };
                let mut arriving = Flight { bytes, ..flight };
                if let Some(flip) = arrival.flip {
                    flip.apply(&mut arriving.bytes);
                }
                if arrival.ce {
                    arriving.ecn = Some(Ecn::Ce);
                }
                self.flights.push(arrival.at, arriving);
            }
        }
    }
}
