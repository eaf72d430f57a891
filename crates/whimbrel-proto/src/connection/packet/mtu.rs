//! Path MTU discovery by probe packets (DPLPMTUD, RFC 8899): from 1,200 bytes of UDP payload upward.

use std::time::Duration;

use crate::Time;

/// The UDP payload that every path carries (RFC 9000 section 14), bytes.
pub(in crate::connection) const BASE: u16 = 1200;
/// The UDP payload of a full Ethernet packet over IPv4, bytes. Most paths carry it, and most of those no more.
pub(in crate::connection) const USUAL: u16 = 1472;
/// How often one size is tried before it counts as too large.
const TRIES: u8 = 2;
/// The search ends when the candidates are this close, bytes.
const FINE_ENOUGH: u16 = 20;
/// How long after a search the next one begins (RFC 8899's PMTU_RAISE_TIMER).
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// The number of full-size packets lost in a row, with smaller ones arriving, that means a black hole.
const BLACK_HOLE: u8 = 6;

/// The largest size known to work, and the search for a larger one.
#[derive(Debug)]
pub(in crate::connection) struct Mtu {
    current: u16,
    /// The largest size that both ends accept.
    ceiling: u16,
    /// The smallest size known not to work.
    too_large: u16,
    tries: u8,
    in_flight: Option<u16>,
    search_at: Option<Time>,
    lost_in_a_row: u8,
    /// Whether smaller packets arrived while full-size ones were lost.
    small_alive: bool,
}

impl Mtu {
    pub(in crate::connection) fn new(ceiling: u16) -> Self {
        let ceiling = ceiling.max(BASE);
        Self {
            current: BASE,
            ceiling,
            too_large: ceiling.saturating_add(1),
            tries: 0,
            in_flight: None,
            search_at: None,
            lost_in_a_row: 0,
            small_alive: false,
        }
    }

    /// Returns the largest UDP payload known to work, bytes.
    pub(in crate::connection) fn current(&self) -> u16 {
        self.current
    }

    /// Lowers the ceiling to what the peer accepts.
    pub(in crate::connection) fn limit(&mut self, ceiling: u64) {
        self.ceiling = self.ceiling.min(u16::try_from(ceiling).unwrap_or(u16::MAX)).max(BASE);
        self.too_large = self.too_large.min(self.ceiling.saturating_add(1));
    }

    /// Returns the size to probe now, if any. The usual size comes first, since most paths carry it, and then the ceiling.
    /// Otherwise the interval is halved, but not above the usual size: few paths carry more than that and less than a
    /// higher ceiling.
    pub(in crate::connection) fn next_probe(&self, now: Time) -> Option<u16> {
        if self.in_flight.is_some() || self.current >= self.ceiling {
            return None;
        }
        if self.search_at.is_some_and(|at| now < at) {
            return None;
        }
        if self.current < USUAL && USUAL < self.too_large {
            return Some(USUAL);
        }
        if self.too_large > self.ceiling {
            return Some(self.ceiling);
        }
        (self.current < USUAL && self.too_large - self.current > FINE_ENOUGH)
            .then(|| self.current + (self.too_large - self.current) / 2)
    }

    pub(in crate::connection) fn on_probe_sent(&mut self, size: u16) {
        self.in_flight = Some(size);
    }

    /// Returns the new size if it grew.
    pub(in crate::connection) fn on_probe_acked(&mut self, now: Time, size: u16) -> Option<u16> {
        self.in_flight = None;
        self.tries = 0;
        if size <= self.current {
            return None;
        }
        self.current = size;
        if self.too_large <= size {
            // The probe was declared lost, but had only been late.
            self.too_large = self.ceiling.saturating_add(1);
        }
        self.rest_if_done(now);
        Some(size)
    }

    pub(in crate::connection) fn on_probe_lost(&mut self, now: Time, size: u16) {
        self.in_flight = None;
        if size <= self.current {
            // Another probe of that size arrived.
            return;
        }
        self.tries += 1;
        if self.tries >= TRIES {
            self.tries = 0;
            self.too_large = self.too_large.min(size);
            self.rest_if_done(now);
        }
    }

    fn rest_if_done(&mut self, now: Time) {
        let is_done = self.too_large - self.current <= FINE_ENOUGH
            || self.current >= USUAL && self.too_large <= self.ceiling;
        if self.current < self.ceiling && is_done {
            self.search_at = Some(now + RAISE_AFTER);
            self.too_large = self.ceiling.saturating_add(1);
        }
    }

    /// Records the loss of a full-size packet. Returns whether the path has become a black hole for such packets:
    /// several were lost in a row while smaller ones arrived. If no smaller ones arrive either, it is an outage.
    pub(in crate::connection) fn on_full_lost(&mut self) -> bool {
        if self.current == BASE {
            return false;
        }
        self.lost_in_a_row = self.lost_in_a_row.saturating_add(1);
        self.is_black_hole()
    }

    /// Records that a smaller packet arrived.
    pub(in crate::connection) fn on_small_acked(&mut self) {
        self.small_alive = self.lost_in_a_row > 0;
    }

    /// Records that a full-size packet arrived.
    pub(in crate::connection) fn on_full_acked(&mut self) {
        self.lost_in_a_row = 0;
        self.small_alive = false;
    }

    fn is_black_hole(&mut self) -> bool {
        if self.lost_in_a_row < BLACK_HOLE || !self.small_alive {
            return false;
        }
        self.on_full_acked();
        self.too_large = self.current;
        self.current = BASE;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(mtu: &mut Mtu, works_to: u16) -> u32 {
        let mut probes = 0;
        while let Some(size) = mtu.next_probe(Time::ZERO) {
            probes += 1;
            mtu.on_probe_sent(size);
            assert_eq!(mtu.next_probe(Time::ZERO), None, "one probe at a time");
            if size <= works_to {
                mtu.on_probe_acked(Time::ZERO, size);
            } else {
                mtu.on_probe_lost(Time::ZERO, size);
            }
        }
        probes
    }

    #[test]
    fn the_ceiling_is_one_probe_away() {
        let mut mtu = Mtu::new(1472);
        assert_eq!(search(&mut mtu, 1500), 1);
        assert_eq!(mtu.current(), 1472);
    }

    #[test]
    fn a_smaller_path_is_found_by_halving_and_searched_again_later() {
        let mut mtu = Mtu::new(1472);
        search(&mut mtu, 1400);
        assert!((1400 - FINE_ENOUGH..=1400).contains(&mtu.current()), "{}", mtu.current());
        assert_eq!(mtu.next_probe(Time::ZERO + RAISE_AFTER), Some(1472));
    }

    #[test]
    fn a_ceiling_above_the_usual_size_costs_two_probes_where_it_does_not_work() {
        let mut mtu = Mtu::new(8952);
        assert_eq!(search(&mut mtu, 1500), 1 + u32::from(TRIES));
        assert_eq!((mtu.current(), mtu.next_probe(Time::ZERO + RAISE_AFTER)), (USUAL, Some(8952)));
        let mut mtu = Mtu::new(8952);
        assert_eq!((search(&mut mtu, 9000), mtu.current()), (2, 8952));
        // Behind a black hole, the usual size is tried first again.
        (0..BLACK_HOLE - 1).for_each(|_| assert!(!mtu.on_full_lost()));
        mtu.on_small_acked();
        assert!(mtu.on_full_lost());
        assert_eq!((search(&mut mtu, 1500), mtu.current()), (1, USUAL));
        // A smaller path is found as with the usual ceiling.
        let mut mtu = Mtu::new(8952);
        search(&mut mtu, 1400);
        assert!((1400 - FINE_ENOUGH..=1400).contains(&mtu.current()), "{}", mtu.current());
    }

    /// A probe that was declared lost and arrived after all left a size known both to work and not to work.
    #[test]
    fn regression_a_late_probe_works() {
        let mut mtu = Mtu::new(1472);
        for _ in 0..TRIES {
            mtu.on_probe_sent(1472);
            mtu.on_probe_lost(Time::ZERO, 1472);
        }
        assert_eq!(mtu.on_probe_acked(Time::ZERO, 1472), Some(1472));
        assert_eq!(mtu.next_probe(Time::ZERO), None);
        mtu.on_probe_lost(Time::ZERO, 1472);
        assert_eq!(mtu.current(), 1472);
    }

    #[test]
    fn a_black_hole_falls_back_to_the_base() {
        let mut mtu = Mtu::new(1472);
        search(&mut mtu, 1500);
        for _ in 1..BLACK_HOLE {
            assert!(!mtu.on_full_lost());
        }
        mtu.on_full_acked();
        for _ in 0..BLACK_HOLE * 3 {
            assert!(!mtu.on_full_lost(), "an outage is no black hole");
        }
        mtu.on_small_acked();
        assert!(mtu.on_full_lost());
        assert_eq!(mtu.current(), BASE);
        search(&mut mtu, 1300);
        assert!(mtu.current() >= 1300 - FINE_ENOUGH);
    }
}
