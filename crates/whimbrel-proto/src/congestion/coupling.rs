//! Paths that share a bottleneck take together what one flow takes.
//!
//! Nobody tells a sender which paths share one, so it is found out: round trips of paths through one queue rise and fall together
//! ([`share_queue`]; Rubenstein, Kurose, Towsley, "Detecting shared congestion of flows via end-to-end measurement", 2002; RFC 8382 is the
//! same idea). Until shown to be apart, paths count as sharing. What those that share do is told to each one's controller as [`Company`].

use std::collections::VecDeque;
use std::time::Duration;

use super::math::{self, ONE};

/// Spans kept to compare.
const KEPT: usize = 64;
/// Spans in common at least before two are compared.
const LEAST_COMMON: usize = 20;
/// Less variation than this, mean square of nanoseconds, tells nothing: 0.1 ms.
const LEAST_VARIANCE: f64 = 1e5 * 1e5;
/// Variance of the difference, as a share of what it would be if neither knew of the other: below the first they share a queue, above
/// the second they do not; between them what was found before goes on.
const TOGETHER: f64 = 0.4;
const APART: f64 = 0.7;

/// What the other paths through a path's bottleneck do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Company {
    /// How many paths share the bottleneck, this one included.
    pub paths: u32,
    /// What the others take, bytes a second.
    pub others: u64,
    /// The shortest base round trip of them all.
    pub base: Duration,
    /// By how much a window may grow compared with a flow of its own, permille (RFC 6356 section 3).
    pub growth: u64,
}

impl Company {
    /// The rate by which a path of `own` rate should judge how long a queue to keep: that of all together, so that they want what one
    /// flow would; a fourth of it depends on the path's own, or the shares of the paths would drift.
    pub(super) fn joint(&self, own: u64) -> u64 {
        let all = u128::from(own) + u128::from(self.others);
        let rate = (all * 3 + u128::from(own) * u128::from(self.paths)) / 4;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// One path of several, as coupling sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Bytes a second that arrive.
    pub rate: u64,
    /// Bytes that may be in flight.
    pub window: u64,
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Base round trip.
    pub base: Duration,
}

/// What `members[me]` is told of all `members`, who share a bottleneck. None: it is alone.
pub fn company(members: &[Member], me: usize) -> Option<Company> {
    let (paths, mine) = (u32::try_from(members.len()).ok()?, members.get(me)?);
    if paths < 2 {
        return None;
    }
    let all = members.iter().fold(0, |sum: u64, member| sum.saturating_add(member.rate));
    let base = members.iter().map(|member| member.base).min()?;
    Some(Company { paths, others: all.saturating_sub(mine.rate), base, growth: growth(members, mine) })
}

/// RFC 6356: of `alpha × acked / total window`, relative to `acked / own window`, never more than that.
fn growth(members: &[Member], mine: &Member) -> u64 {
    let seconds = |member: &Member| member.rtt.max(Duration::from_micros(20)).as_secs_f64();
    let best = members.iter().map(|m| m.window as f64 / seconds(m).powi(2)).fold(0.0, f64::max);
    let sum: f64 = members.iter().map(|m| m.window as f64 / seconds(m)).sum();
    let part = mine.window as f64 * best / (sum * sum).max(1.0);
    ((part * ONE as f64) as u64).clamp(1, ONE)
}

/// Mean round trips of a path, span by span. The spans of all paths of a connection begin and end together.
#[derive(Debug, Default)]
pub struct Delays {
    sum: Duration,
    count: u32,
    means: VecDeque<Option<Duration>>,
}

impl Delays {
    /// A round trip was measured.
    pub fn on_sample(&mut self, rtt: Duration) {
        self.sum = self.sum.saturating_add(rtt);
        self.count = self.count.saturating_add(1);
    }

    /// A span is over.
    pub fn end_span(&mut self) {
        if self.means.len() == KEPT {
            self.means.pop_front();
        }
        self.means.push_back(self.sum.checked_div(self.count));
        (self.sum, self.count) = (Duration::ZERO, 0);
    }
}

/// Whether two paths go through one queue; none: what was measured does not tell.
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
