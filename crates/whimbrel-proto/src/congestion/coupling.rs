//! Makes paths that share a bottleneck take together what one flow takes.
//!
//! A sender is not told which paths share a bottleneck, so it finds out: the round trips of paths through one queue
//! rise and fall together ([`share_queue`]; Rubenstein, Kurose, Towsley, "Detecting shared congestion of flows via
//! end-to-end measurement", 2002; RFC 8382 uses the same idea). Paths count as sharing until they are shown to be
//! apart. Each controller learns what the other paths on its bottleneck do as [`Company`].

use std::collections::VecDeque;
use std::time::Duration;

use super::math;
use super::math::ONE;

/// Spans kept for comparison.
const KEPT: usize = 64;
/// Spans that two paths must have in common before they are compared.
const LEAST_COMMON: usize = 20;
/// Less variation than this tells nothing. It is a variance in square nanoseconds: 0.1 ms squared.
const LEAST_VARIANCE: f64 = 1e5 * 1e5;
/// Thresholds for the variance of the difference, as a share of its value for independent paths. Below the first, two
/// paths share a queue; above the second, they do not. In between, the earlier finding stands.
const TOGETHER: f64 = 0.4;
const APART: f64 = 0.7;

/// How often a controller took steps that the others on its bottleneck should take as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Calls {
    /// Times it met congestion and gave way.
    pub congestions: u32,
    /// Times it drained the queue to see the base round trip.
    pub drains: u32,
}

/// The other paths through a path's bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Company {
    /// How many paths share the bottleneck, this one included.
    pub paths: u32,
    /// The rate that the others take, in bytes a second.
    pub others: u64,
    /// The shortest base round trip of all these paths.
    pub base: Duration,
    /// How fast a window may grow compared with a flow of its own, permille (RFC 6356 section 3).
    pub growth: u64,
    /// The steps of the others so far that this path should take as well, summed.
    pub calls: Calls,
}

impl Company {
    /// The rate by which a path of rate `own` chooses the length of its queue. It is mostly the joint rate, so that
    /// all paths want what one flow would. A fourth depends on the path's own rate, or the shares of the paths would
    /// drift.
    pub(super) fn joint(&self, own: u64) -> u64 {
        let all = u128::from(own) + u128::from(self.others);
        let rate = (all * 3 + u128::from(own) * u128::from(self.paths)) / 4;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// One of several paths, as coupling sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The arrival rate in bytes a second.
    pub rate: u64,
    /// Bytes that may be in flight.
    pub window: u64,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The base round trip.
    pub base: Duration,
    /// Its steps so far that the others should take as well.
    pub calls: Calls,
}

/// Returns the company of `members[me]` among `members`, who share a bottleneck. `None` if it is alone.
pub fn company(members: &[Member], me: usize) -> Option<Company> {
    let (paths, mine) = (u32::try_from(members.len()).ok()?, members.get(me)?);
    if paths < 2 {
        return None;
    }
    let others = || members.iter().enumerate().filter(|(at, _)| *at != me).map(|(_, member)| member);
    let calls = others().fold(Calls::default(), |sum, other| Calls {
        congestions: sum.congestions.wrapping_add(other.calls.congestions),
        drains: sum.drains.wrapping_add(other.calls.drains),
    });
    Some(Company {
        paths,
        others: others().fold(0, |sum, other| sum.saturating_add(other.rate)),
        base: members.iter().map(|member| member.base).min()?,
        growth: growth(members, mine),
        calls,
    })
}

/// The growth of RFC 6356: the increase `alpha × acked / total window` relative to `acked / own window`, at most 1.
fn growth(members: &[Member], mine: &Member) -> u64 {
    let seconds = |member: &Member| member.rtt.max(Duration::from_micros(20)).as_secs_f64();
    let best = members.iter().map(|m| m.window as f64 / seconds(m).powi(2)).fold(0.0, f64::max);
    let sum: f64 = members.iter().map(|m| m.window as f64 / seconds(m)).sum();
    let part = mine.window as f64 * best / (sum * sum).max(1.0);
    ((part * ONE as f64) as u64).clamp(1, ONE)
}

/// The mean round trips of a path, span by span. The spans of all paths of a connection begin and end together.
#[derive(Debug, Default)]
pub struct Delays {
    sum: Duration,
    count: u32,
    means: VecDeque<Option<Duration>>,
}

impl Delays {
    /// Takes in a round trip.
    pub fn on_sample(&mut self, rtt: Duration) {
        self.sum = self.sum.saturating_add(rtt);
        self.count = self.count.saturating_add(1);
    }

    /// Ends a span.
    pub fn end_span(&mut self) {
        if self.means.len() == KEPT {
            self.means.pop_front();
        }
        self.means.push_back(self.sum.checked_div(self.count));
        (self.sum, self.count) = (Duration::ZERO, 0);
    }
}

/// Returns whether two paths go through one queue, or `None` if the measurements do not tell.
pub fn share_queue(a: &Delays, b: &Delays) -> Option<bool> {
    let latest = a.means.iter().rev().zip(b.means.iter().rev());
    let pairs = latest.filter_map(|(a, b)| Some((math::nanos((*a)?) as f64, math::nanos((*b)?) as f64)));
    let (mut count, mut sums, mut squares) = (0usize, [0.0; 3], [0.0; 3]);
    for (a, b) in pairs {
        count += 1;
        for (at, value) in [a, b, a - b].into_iter().enumerate() {
            sums[at] += value;
            squares[at] += value * value;
        }
    }
    if count < LEAST_COMMON {
        return None;
    }
    let variance = |at: usize| (squares[at] - sums[at] * sums[at] / count as f64).max(0.0) / count as f64;
    let apart = variance(0) + variance(1);
    match variance(2) / apart {
        _ if apart < 2.0 * LEAST_VARIANCE => None,
        share if share < TOGETHER => Some(true),
        share if share > APART => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn member(window: u64, rtt_ms: u64) -> Member {
        let rtt = MS * rtt_ms as u32;
        Member { rate: window * 1000 / rtt_ms, window, rtt, base: rtt / 2, calls: Calls::default() }
    }

    /// The mean round trips of two paths, span by span.
    fn delays(spans: impl Iterator<Item = (u64, u64)>) -> [Delays; 2] {
        let mut both = <[Delays; 2]>::default();
        for (a, b) in spans {
            for (delays, rtt_us) in both.iter_mut().zip([a, b]) {
                delays.on_sample(Duration::from_micros(rtt_us));
                delays.on_sample(Duration::from_micros(rtt_us + 200));
                delays.end_span();
            }
        }
        both
    }

    fn verdict(spans: impl Iterator<Item = (u64, u64)>) -> Option<bool> {
        let [a, b] = delays(spans);
        share_queue(&a, &b)
    }

    /// A pseudo-random number from 0 to 9,999.
    fn noise(at: u64) -> u64 {
        let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % 10_000
    }

    #[test]
    fn who_alone_is_told_nothing() {
        assert_eq!(company(&[member(10_000, 20)], 0), None);
        assert_eq!(company(&[], 0), None);
    }

    #[test]
    fn two_alike_grow_as_one() {
        let both = [member(30_000, 30), member(30_000, 30)];
        let told = company(&both, 0).unwrap();
        assert_eq!(told.growth, 250, "half of what half the window would");
        assert_eq!((told.paths, told.others), (2, 1_000_000));
        assert_eq!(told.joint(1_000_000), 2_000_000);
        assert!(told.joint(500_000) < 1_500_000, "the smaller one wants more of a queue than the sum would");
        let unlike = [member(30_000, 30), member(3_000, 300)];
        assert!(
            company(&unlike, 0).unwrap().growth > 900,
            "a path that carries next to nothing takes nothing away"
        );
    }

    #[test]
    fn hostile_figures_do_no_harm() {
        let worst = Member {
            rate: u64::MAX,
            window: u64::MAX,
            rtt: Duration::ZERO,
            base: Duration::MAX,
            calls: Calls { congestions: u32::MAX, drains: u32::MAX },
        };
        let told = company(&[worst, worst, Member { window: 0, ..worst }], 2).unwrap();
        assert!((1..=ONE).contains(&told.growth));
        assert_eq!(told.joint(u64::MAX), u64::MAX);
    }

    #[test]
    fn what_rises_and_falls_together_goes_through_one_queue() {
        let one = |at| 30_000 + noise(at);
        assert_eq!(
            verdict((0..64).map(|at| (one(at), one(at) + 30_000))),
            Some(true),
            "the longer way adds to all alike"
        );
        let noisy = (0..64).map(|at| (one(at) + noise(at + 500) / 4, one(at) + noise(at + 900) / 4));
        assert_eq!(verdict(noisy), Some(true));
        assert_eq!(verdict((0..64).map(|at| (one(at), one(at + 1000)))), Some(false));
        assert_eq!(verdict((0..64).map(|at| (one(at), 30_000))), Some(false), "only one of them varies");
        assert_eq!(verdict((0..10).map(|at| (one(at), one(at)))), None, "too little was seen");
        assert_eq!(verdict((0..64).map(|_| (30_000, 40_000))), None, "a standing queue looks like any other");
    }
}
