//! Probing of a silent path: a few probes at once, then one at bounded intervals. A link that returns is then used
//! within a quarter of a second or an RTT. With endless doubling, the wait could be as long as the outage.

use std::time::Duration;

use crate::Time;

/// After this long, the interval between probes grows from its cap towards [`SLOWEST`].
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest interval between probes.
const SLOWEST: Duration = Duration::from_secs(5);

/// Whether the path is heard, or silent because a packet stayed unanswered past its deadline.
#[derive(Debug, Default)]
pub(super) struct Silence {
    state: SilenceState,
}

#[derive(Debug, Default)]
enum SilenceState {
    #[default]
    Heard,
    Silent {
        since: Time,
        unanswered: u32,
        credit: u32,
        next: Time,
    },
}

impl Silence {
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.state, SilenceState::Silent { .. })
    }

    /// Returns whether the silence went on beyond both tail probes, so that the link is dead and not only the tail
    /// lost.
    pub(super) fn is_blackout(&self) -> bool {
        self.unanswered() > 2
    }

    /// Returns how many probes were granted since the path was last heard.
    pub(super) fn unanswered(&self) -> u32 {
        match self.state {
            SilenceState::Heard => 0,
            SilenceState::Silent { unanswered, .. } => unanswered,
        }
    }

    /// Returns when the silence began.
    pub(super) fn since(&self) -> Option<Time> {
        match self.state {
            SilenceState::Heard => None,
            SilenceState::Silent { since, .. } => Some(since),
        }
    }

    /// Returns how many packets may be sent now.
    pub(super) fn probe_credit(&self) -> u32 {
        match self.state {
            SilenceState::Heard => 0,
            SilenceState::Silent { credit, .. } => credit,
        }
    }

    pub(super) fn next_probe(&self) -> Option<Time> {
        match self.state {
            // A probe that was granted but not sent yet, because there was nothing to send, needs no further timer.
            SilenceState::Silent { credit: 0, next, .. } => Some(next),
            _ => None,
        }
    }

    pub(super) fn on_sent(&mut self) {
        if let SilenceState::Silent { credit, .. } = &mut self.state {
            *credit = credit.saturating_sub(1);
        }
    }

    /// Begins a silence, when a packet is overdue and nothing was heard since it was sent.
    pub(super) fn on_overdue(&mut self, now: Time, deadline: Duration) {
        if let SilenceState::Heard = self.state {
            // The first tail probe is two packets, since more than one is often lost.
            self.state = SilenceState::Silent { since: now, unanswered: 1, credit: 2, next: now + deadline };
        }
    }

    /// Grants the next probe if it is due, and returns whether it was. `cap` limits the interval.
    pub(super) fn handle_timeout(&mut self, now: Time, deadline: Duration, cap: Duration) -> bool {
        let SilenceState::Silent { since, unanswered, credit, next } = &mut self.state else { return false };
        if now < *next {
            return false;
        }
        *unanswered += 1;
        *credit = 1;
        let doublings = unanswered.saturating_sub(2).min(16);
        let mut interval = deadline.saturating_mul(1 << doublings).min(cap);
        if now.since(*since) > PATIENCE {
            interval = (now.since(*since) / 240).clamp(interval, SLOWEST);
        }
        *next = now + interval;
        true
    }

    /// Grants a probe now, whatever the interval.
    pub(super) fn probe_at(&mut self, now: Time) {
        if let SilenceState::Silent { credit, next, .. } = &mut self.state {
            *credit = (*credit).max(1);
            *next = now;
        }
    }

    /// Ends the silence when something is acknowledged. Returns whether it was a blackout.
    pub(super) fn on_heard(&mut self) -> bool {
        let was_blackout = self.is_blackout();
        self.state = SilenceState::Heard;
        was_blackout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_to_the_cap_and_slow_down_after_a_minute() {
        let deadline = Duration::from_millis(50);
        let cap = Duration::from_millis(250);
        let mut silence = Silence::default();
        let mut now = Time::ZERO;
        silence.on_overdue(now, deadline);
        assert_eq!(silence.probe_credit(), 2);
        let mut intervals = Vec::new();
        while now < Time::ZERO + Duration::from_secs(300) {
            silence.on_sent();
            silence.on_sent();
            let next = silence.next_probe().unwrap();
            intervals.push(next.since(now));
            now = next;
            silence.handle_timeout(now, deadline, cap);
            assert_eq!(silence.probe_credit(), 1);
        }
        let ms: Vec<u128> = intervals.iter().map(Duration::as_millis).take(6).collect();
        assert_eq!(ms, [50, 50, 100, 200, 250, 250]);
        assert!(*intervals.last().unwrap() > Duration::from_secs(1));
        assert!(intervals.iter().all(|interval| *interval <= SLOWEST));
        assert!(silence.on_heard(), "that was a blackout");
        assert!(!silence.is_silent());
    }
}
