//! The choice of path for what is sent next.
//!
//! Paths pull: each in turn, the best first, asks whether it may carry data now. A scheduler answers from what is known
//! of all of them. Data that it refuses to one path goes to the next, or waits for a better path to have room.

use std::time::Duration;

/// How several paths are used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// The best path carries everything, and the others wait for it to fail. Data then goes on the next best, and
    /// returns once the first has worked for a while (MMSP's Automatic Changeover). Lost data is retransmitted on the
    /// next best path (MMSP's Retransmission Correction), if that costs no more and is not held in reserve.
    Primary,
    /// All paths carry data, the one where it would arrive first before the others. A slow path carries only what would
    /// not arrive earlier by waiting for a faster one.
    #[default]
    Aggregate,
    /// Every message goes on every path that works, as far as the path keeps up. This gives the lowest latency, at a
    /// multiple of the bytes.
    Redundant,
}

/// A scheduler's view of a path.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct View {
    /// Whether the path works and may be used.
    pub(in crate::connection) usable: bool,
    /// Whether it is held in reserve.
    pub(in crate::connection) standby: bool,
    /// The cost of a byte there, in the application's unit.
    pub(in crate::connection) cost: u32,
    pub(in crate::connection) rtt: Duration,
    /// The RTT without the queue that this end's own packets make.
    pub(in crate::connection) unloaded: Duration,
    /// The share of packets lost lately, 0 to 1.
    pub(in crate::connection) loss: f64,
    /// The rate at which packets leave, bytes a second.
    pub(in crate::connection) rate: u64,
}

impl View {
    pub(in crate::connection) const NONE: Self = Self {
        usable: false,
        standby: false,
        cost: 0,
        rtt: Duration::ZERO,
        unloaded: Duration::ZERO,
        loss: 0.0,
        rate: 0,
    };

    /// Returns how long it takes until `bytes` that begin to leave now have arrived.
    fn arrival(&self, bytes: u64) -> Duration {
        self.rtt / 2 + Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / self.rate.max(1))
    }

    /// Returns the order in which paths are wanted: those that work, then those not in reserve, then the cheaper ones.
    fn wanted(&self) -> (bool, bool, u32) {
        (!self.usable, self.standby, self.cost)
    }

    /// Returns the rank of the path; the lowest is the best.
    fn rank(&self) -> ((bool, bool, u32), Duration) {
        (self.wanted(), self.score())
    }

    /// Returns the round trip with a penalty for loss: each lost packet counts as three more round trips. A path is not
    /// worse for the traffic it is given, or two alike paths would take turns.
    fn score(&self) -> Duration {
        self.unloaded.mul_f64(1.0 + 3.0 * self.loss.clamp(0.0, 1.0))
    }
}

/// The data that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Backlog {
    pub(in crate::connection) bytes: u64,
    /// Whether lost data waits to be retransmitted.
    pub(in crate::connection) lost: bool,
}

/// A way to share data out among paths.
pub(in crate::connection) trait Scheduler {
    /// Returns whether path `me` may carry data now. `primary` is the primary path.
    fn may_carry(&self, paths: &[View], me: usize, primary: usize, waiting: Backlog) -> bool;

    /// Returns the path on which lost data is retransmitted first, and which carries no new data.
    fn mends(&self, paths: &[View], primary: usize) -> Option<usize>;
}

impl Scheduler for Scheduling {
    fn may_carry(&self, paths: &[View], me: usize, primary: usize, waiting: Backlog) -> bool {
        match self {
            Self::Primary => me == primary || waiting.lost && self.mends(paths, primary) == Some(me),
            Self::Redundant => me == primary,
            Self::Aggregate => earliest_completion_first(paths, me, primary, waiting.bytes),
        }
    }

    fn mends(&self, paths: &[View], primary: usize) -> Option<usize> {
        if *self != Self::Primary {
            return None;
        }
        let others = (0..paths.len()).filter(|path| *path != primary && paths[*path].usable);
        let next = others.min_by_key(|path| paths[*path].rank())?;
        (paths[next].wanted() <= paths[primary].wanted()).then_some(next)
    }
}

/// Returns whether a packet on `me` arrives no later than if it waited for its turn on the primary.
fn earliest_completion_first(paths: &[View], me: usize, primary: usize, backlog: u64) -> bool {
    let (mine, best) = (&paths[me], &paths[primary]);
    if me == primary {
        return true;
    }
    if !mine.usable || best.usable && mine.wanted() > best.wanted() {
        return false;
    }
    mine.arrival(PACKET) <= best.arrival(backlog.saturating_add(PACKET))
}

/// The approximate size of a packet, bytes.
const PACKET: u64 = 1500;
/// To replace the primary, a path's score must be at most this many eighths of the primary's.
pub(in crate::connection) const MARGIN_EIGHTHS: u32 = 6;

/// How the current primary compares with the best path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Comparison {
    /// No other path is clearly better.
    Stays,
    /// The primary works and is wanted as much, but the other has a clearly better score.
    Slower(usize),
    /// The primary fails, or is wanted less than the other.
    Outranked(usize),
}

/// Compares the current primary, `now`, with the best path.
pub(in crate::connection) fn compare(paths: &[View], now: usize) -> Comparison {
    let best = (0..paths.len()).min_by_key(|path| paths[*path].rank()).unwrap_or(now);
    let (current, other) = (&paths[now], &paths[best]);
    if current.wanted() != other.wanted() {
        Comparison::Outranked(best)
    } else if best == now || other.score() * 8 > current.score() * MARGIN_EIGHTHS {
        Comparison::Stays
    } else {
        Comparison::Slower(best)
    }
}

#[cfg(test)]
mod tests {
    use super::Comparison::{Outranked, Slower, Stays};
    use super::*;

    fn path(rtt_ms: u64, mbit: u64) -> View {
        let rtt = Duration::from_millis(rtt_ms);
        View { usable: true, standby: false, cost: 0, rtt, unloaded: rtt, loss: 0.0, rate: mbit * 125_000 }
    }

    fn waiting(bytes: u64) -> Backlog {
        Backlog { bytes, lost: false }
    }

    #[test]
    fn what_the_primary_lost_goes_on_the_next_best() {
        let mut paths = [path(20, 20), path(60, 20), path(40, 20), View { cost: 1, ..path(30, 20) }];
        let lost = Backlog { bytes: 0, lost: true };
        let carriers = |paths: &[View], waiting| -> Vec<usize> {
            (0..4).filter(|me| Scheduling::Primary.may_carry(paths, *me, 0, waiting)).collect()
        };
        assert_eq!(carriers(&paths, waiting(u64::MAX)), [0]);
        assert_eq!(carriers(&paths, lost), [0, 2]);
        paths[2].standby = true;
        assert_eq!(carriers(&paths, lost), [0, 1]);
        paths[1].usable = false;
        assert_eq!(carriers(&paths, lost), [0], "what is dear or in reserve does not mend what works");
        assert_eq!(Scheduling::Aggregate.mends(&paths, 0), None);
    }

    #[test]
    fn a_slow_path_carries_only_what_would_wait_longer_for_the_fast_one() {
        let paths = [path(20, 20), path(200, 4)];
        let aggregate = |bytes| Scheduling::Aggregate.may_carry(&paths, 1, 0, waiting(bytes));
        assert!(!aggregate(0));
        assert!(!aggregate(200_000), "80 ms of the fast path's rate: sooner there by its round trip");
        assert!(aggregate(300_000));
        assert!(Scheduling::Aggregate.may_carry(&paths, 0, 0, waiting(0)), "the best always may");
        assert!(!Scheduling::Primary.may_carry(&paths, 1, 0, waiting(u64::MAX)));
    }

    #[test]
    fn dear_and_reserve_paths_wait_until_the_others_fail() {
        let mut paths =
            [path(20, 20), View { cost: 1, ..path(10, 20) }, View { standby: true, ..path(10, 20) }];
        assert_eq!(compare(&paths, 0), Stays);
        assert!(!Scheduling::Aggregate.may_carry(&paths, 1, 0, waiting(u64::MAX)));
        assert!(!Scheduling::Aggregate.may_carry(&paths, 2, 0, waiting(u64::MAX)));
        paths[0].usable = false;
        assert_eq!(compare(&paths, 0), Outranked(1));
        paths[1].usable = false;
        assert_eq!(compare(&paths, 1), Outranked(2));
        paths[0].usable = true;
        assert_eq!(compare(&paths, 2), Outranked(0), "back when it recovers");
    }

    #[test]
    fn the_primary_does_not_flap_between_like_paths() {
        assert_eq!(compare(&[path(50, 10), path(45, 10)], 0), Stays);
        assert_eq!(compare(&[path(50, 10), path(30, 10)], 0), Slower(1));
        assert_eq!(compare(&[path(50, 10), path(30, 10)], 1), Stays);
        let lossy = |rtt, loss| View { loss, ..path(rtt, 10) };
        assert_eq!(
            compare(&[lossy(40, 0.2), path(42, 10)], 0),
            Slower(1),
            "a fifth lost is worth a longer way"
        );
        assert_eq!(compare(&[lossy(40, 0.02), path(42, 10)], 0), Stays);
    }
}
