//! Limits on the work for strangers: SYN-ACKs, and above all the key agreements of PINGs.

use std::net::SocketAddr;

use super::networks::{Known, Network, SIZES};
use super::rates::{RatePerKey, Trickle};
use super::settings::ListenConfig;
use crate::handshake::Effort;
use crate::{ConnectionId, Time};

/// The number of PINGs a second accepted with one ticket. A ticket is good for one connection. More PINGs come only
/// from someone who copied it and cannot use it, and then it is voided.
const TRIES_PER_TICKET: u32 = 4;

/// The rate limits; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Gate {
    syns: Trickle,
    /// Key agreements for all clients.
    all: Trickle,
    /// Key agreements for strangers, which count in `all` as well.
    strangers: Trickle,
    networks: [RatePerKey<Network>; SIZES.len()],
    tickets: RatePerKey<ConnectionId>,
    known: Known,
}

/// The share of `handshakes_per_second` that strangers may have: three quarters.
const fn of_strangers(limit: u32) -> u32 {
    limit - limit / 4
}

impl Gate {
    pub(super) fn takes_syn(&mut self, now: Time, listen: &ListenConfig) -> bool {
        self.syns.take(now, listen.syns_per_second)
    }

    /// Returns whether `effort` may be spent on the client at `from`, and spends it.
    pub(super) fn affords(
        &mut self,
        now: Time,
        effort: Effort,
        from: SocketAddr,
        listen: &ListenConfig,
    ) -> bool {
        match effort {
            Effort::SynAck => self.takes_syn(now, listen),
            Effort::Cookie { crowded } => {
                (!crowded || self.knows(from)) && self.affords_cookie(now, from, listen)
            }
            Effort::Try(id) => self.tickets.has(now, &id, TRIES_PER_TICKET),
            Effort::Ticket(id) => self.affords_ticket(now, id, listen),
        }
    }

    /// Spends from all limits or from none.
    fn affords_cookie(&mut self, now: Time, from: SocketAddr, listen: &ListenConfig) -> bool {
        let networks = Network::all_of(from.ip());
        let mut limits = self.networks.iter_mut().zip(networks).zip(SIZES);
        let room = limits.all(|((budget, network), times)| {
            budget.has(now, &network, listen.pings_per_address.saturating_mul(times))
        });
        let granted = room && self.takes_agreement(now, listen, self.knows(from));
        if granted {
            for (budget, network) in self.networks.iter_mut().zip(networks) {
                budget.spend(network);
            }
        }
        granted
    }

    /// The bearer of a ticket was connected before and counts as known at any address.
    fn affords_ticket(&mut self, now: Time, id: ConnectionId, listen: &ListenConfig) -> bool {
        let granted = self.takes_agreement(now, listen, true);
        if granted {
            self.tickets.spend(id);
        }
        granted
    }

    fn takes_agreement(&mut self, now: Time, listen: &ListenConfig, known: bool) -> bool {
        let limit = listen.handshakes_per_second;
        let share = of_strangers(limit);
        if !known && !self.strangers.has(now, share) || !self.all.take(now, limit) {
            return false;
        }
        if !known {
            self.strangers.spend(now, share);
        }
        true
    }

    /// Returns whether a client is connected from the network of `from`.
    pub(super) fn knows(&self, from: SocketAddr) -> bool {
        self.known.contains(Network::of(from.ip()))
    }

    /// Notes that a client has proven itself from `network`.
    pub(super) fn add_known(&mut self, network: Network) {
        self.known.add(network);
    }

    /// Notes that a client at `network` is gone.
    pub(super) fn remove_known(&mut self, network: Network) {
        self.known.remove(network);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(network: u16) -> SocketAddr {
        (std::net::Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, 1), 5000).into()
    }

    /// Offers this many requests at once, every millisecond for a second.
    fn granted(
        gate: &mut Gate,
        listen: &ListenConfig,
        mut ask: impl FnMut(&mut Gate, Time) -> bool,
    ) -> usize {
        assert!(listen.handshakes_per_second > 0);
        (0..10_000u64).filter(|tick| ask(gate, Time::ZERO + Duration::from_micros(100 * tick))).count()
    }

    #[test]
    fn strangers_leave_a_quarter_to_others() {
        let listen = ListenConfig { handshakes_per_second: 1_000, ..ListenConfig::default() };
        let (mut gate, mut known) = (Gate::default(), 0);
        gate.add_known(Network::of(address(7).ip()));
        let mut network = 100;
        let strangers = granted(&mut gate, &listen, |gate, now| {
            network += 1;
            let stranger = gate.affords(now, Effort::Cookie { crowded: false }, address(network), &listen);
            known += usize::from(gate.affords(now, Effort::Cookie { crowded: false }, address(7), &listen));
            stranger
        });
        // A twentieth of a second may be taken ahead.
        assert!((700..=790).contains(&strangers), "{strangers}");
        assert!((240..=350).contains(&known), "{known}");
    }

    #[test]
    fn those_who_are_known_may_have_all_of_it() {
        let listen = ListenConfig { handshakes_per_second: 500, ..ListenConfig::default() };
        let mut gate = Gate::default();
        let mut ticket = 0;
        let tickets = granted(&mut gate, &listen, |gate, now| {
            ticket += 1;
            gate.affords(now, Effort::Ticket(ConnectionId(ticket)), address(1), &listen)
        });
        assert!((500..=530).contains(&tickets), "{tickets}");
    }

    #[test]
    fn a_network_has_its_share_however_many_smaller_ones_are_in_it() {
        let listen = ListenConfig { pings_per_address: 10, ..ListenConfig::default() };
        let mut gate = Gate::default();
        let mut host = 0u16;
        let spent = granted(&mut gate, &listen, |gate, now| {
            host = host.wrapping_add(1) & 0xff;
            let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 1, host << 8, 0, 0, 0, 1);
            gate.affords(now, Effort::Cookie { crowded: false }, (from, 5000).into(), &listen)
        });
        assert_eq!(spent, 20, "twice what a /56 has");
    }
}
