//! Nodes on busy machines, which wake up late.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::{Rng, RngExt};
use whimbrel_proto::Time;

use super::air::Flight;

/// The sleep of all nodes.
#[derive(Debug)]
pub(super) struct Sleepers {
    /// How often nodes wake up late, 0 to 1.
    share: f64,
    /// How late.
    late: RangeInclusive<Duration>,
    nodes: Vec<Sleep>,
}

/// The state of a node whose machine is busy with other things.
#[derive(Debug, Default)]
struct Sleep {
    /// Whether it sleeps.
    deep: bool,
    /// How late it will wake up.
    late: Duration,
    /// Packets that arrived meanwhile, and when the first of them did.
    inbox: Vec<Flight>,
    called_at: Option<Time>,
}

impl Sleepers {
    /// Nodes that are never late.
    pub(super) fn new() -> Self {
        Self { share: 0.0, late: Duration::ZERO..=Duration::ZERO, nodes: Vec::new() }
    }

    pub(super) fn add(&mut self) {
        self.nodes.push(Sleep::default());
    }

    pub(super) fn set_lateness(&mut self, share: f64, late: RangeInclusive<Duration>) {
        (self.share, self.late) = (share, late);
    }

    /// Whether nodes are late at times. If not, nobody sleeps.
    pub(super) fn exist(&self) -> bool {
        self.share > 0.0
    }

    pub(super) fn is_asleep(&self, node: usize) -> bool {
        self.nodes[node].deep
    }

    /// When a node that is awake has something to do, with `timer` the time of its next timer.
    pub(super) fn wakes_at(&self, node: usize, timer: Option<Time>) -> Option<Time> {
        let Sleep { called_at, late, .. } = self.nodes[node];
        timer.into_iter().chain(called_at).min().map(|at| at + late)
    }

    /// Keeps a packet that arrived at `at` until its receiver wakes.
    pub(super) fn keep(&mut self, node: usize, at: Time, flight: Flight) {
        let sleep = &mut self.nodes[node];
        sleep.called_at.get_or_insert(at);
        sleep.inbox.push(flight);
    }

    /// Wakes a node if it is time, and decides how late it will be the next time. Otherwise, it sleeps on. Returns the
    /// packets that arrived meanwhile.
    pub(super) fn wake(
        &mut self,
        node: usize,
        now: Time,
        timer: Option<Time>,
        rng: &mut impl Rng,
    ) -> Vec<Flight> {
        let wakes_at = self.wakes_at(node, timer);
        let sleep = &mut self.nodes[node];
        sleep.deep = wakes_at.is_some_and(|at| at > now);
        if wakes_at.is_none() || sleep.deep {
            return Vec::new();
        }
        let is_late = rng.random_bool(self.share);
        sleep.late = if is_late { rng.random_range(self.late.clone()) } else { Duration::ZERO };
        sleep.called_at = None;
        std::mem::take(&mut sleep.inbox)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;

    #[test]
    fn a_late_node_finds_its_packets_when_it_wakes() {
        let (ms, mut rng) = (Duration::from_millis, ChaCha20Rng::seed_from_u64(1));
        let at = |millis| Time::ZERO + ms(millis);
        let mut sleepers = Sleepers::new();
        sleepers.add();
        sleepers.set_lateness(1.0, ms(5)..=ms(5));
        assert!(sleepers.wake(0, at(0), Some(at(0)), &mut rng).is_empty(), "from now on it is late");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let flight = Flight { to: address, from: address, ecn: None, bytes: vec![1] };
        sleepers.keep(0, at(10), flight.clone());
        sleepers.keep(0, at(12), flight);
        assert_eq!(sleepers.wakes_at(0, Some(at(20))), Some(at(15)));
        assert!(sleepers.wake(0, at(12), Some(at(20)), &mut rng).is_empty() && sleepers.is_asleep(0));
        assert_eq!(sleepers.wake(0, at(15), Some(at(20)), &mut rng).len(), 2);
        assert!(!sleepers.is_asleep(0));
        assert_eq!(sleepers.wakes_at(0, Some(at(20))), Some(at(25)));
    }
}
