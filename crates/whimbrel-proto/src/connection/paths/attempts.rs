//! Address pairs on which a path did not answer. They are tried again automatically, but less and less often.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::Time;

/// The wait from the first failure to the next attempt. Each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The most pairs that are remembered. Beyond that the oldest is forgotten, and tried as if it were new.
const MOST: usize = 64;

/// The failed pairs, the oldest first.
#[derive(Debug, Default)]
pub(in crate::connection) struct Attempts(Vec<Failed>);

#[derive(Debug)]
struct Failed {
    local: Option<IpAddr>,
    remote: SocketAddr,
    wait: Duration,
    /// When the pair may be tried again. `None`: now, and no timer is needed for it. [`Time::MAX`]: not automatically.
    again: Option<Time>,
}

impl Attempts {
    fn position(&self, local: Option<IpAddr>, remote: SocketAddr) -> Option<usize> {
        self.0.iter().position(|failed| failed.local == local && failed.remote == remote)
    }

    /// Records that an attempt on this pair was not answered.
    pub(in crate::connection) fn on_failed(&mut self, now: Time, local: Option<IpAddr>, remote: SocketAddr) {
        let before = self.position(local, remote).map(|at| self.0.remove(at).wait);
        let wait = before.map_or(FIRST_WAIT, |wait| (wait * 2).min(LONGEST_WAIT));
        self.push(Failed { local, remote, wait, again: Some(now + wait) });
    }

    /// Records that the application wants no path on this pair. None is opened until the networks change.
    pub(in crate::connection) fn refuse(&mut self, local: Option<IpAddr>, remote: SocketAddr) {
        self.on_answered(local, remote);
        self.push(Failed { local, remote, wait: FIRST_WAIT, again: Some(Time::MAX) });
    }

    /// Returns the pairs on which the application wants no path.
    pub(in crate::connection) fn refused(&self) -> impl Iterator<Item = (Option<IpAddr>, SocketAddr)> {
        let refused = self.0.iter().filter(|failed| failed.again == Some(Time::MAX));
        refused.map(|failed| (failed.local, failed.remote))
    }

    fn push(&mut self, failed: Failed) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(failed);
    }

    /// Forgets the pair, because a path on it works.
    pub(in crate::connection) fn on_answered(&mut self, local: Option<IpAddr>, remote: SocketAddr) {
        if let Some(at) = self.position(local, remote) {
            self.0.remove(at);
        }
    }

    /// Returns whether the pair must not be tried yet.
    pub(in crate::connection) fn is_waiting(&self, local: Option<IpAddr>, remote: SocketAddr) -> bool {
        self.position(local, remote).is_some_and(|at| self.0[at].again.is_some())
    }

    /// Returns the pairs that must not be tried yet.
    pub(in crate::connection) fn waiting(&self) -> impl Iterator<Item = (Option<IpAddr>, SocketAddr)> {
        self.0.iter().filter(|failed| failed.again.is_some()).map(|failed| (failed.local, failed.remote))
    }

    /// Returns when the next pair may be tried.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        self.0.iter().filter_map(|failed| failed.again).filter(|again| *again < Time::MAX).min()
    }

    /// Releases the pairs whose wait is over. Returns whether there are any.
    pub(in crate::connection) fn handle_timeout(&mut self, now: Time) -> bool {
        let mut any = false;
        for failed in self.0.iter_mut().filter(|failed| failed.again.is_some_and(|again| again <= now)) {
            failed.again = None;
            any = true;
        }
        any
    }

    /// Forgets refusals and failures from addresses that are gone, because the networks changed.
    pub(in crate::connection) fn keep(&mut self, there: impl Fn(IpAddr) -> bool) {
        self.0.retain(|failed| failed.again != Some(Time::MAX) && failed.local.is_none_or(&there));
    }

    /// Forgets everything, because a link came up and any pair may work now.
    pub(in crate::connection) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u8) -> (Option<IpAddr>, SocketAddr) {
        (Some([10, 0, 0, number].into()), ([10, 1, 0, number], 9).into())
    }

    #[test]
    fn attempts_become_rare_and_begin_anew() {
        let (mut attempts, mut now) = (Attempts::default(), Time::ZERO);
        let (local, remote) = pair(1);
        let mut waits = Vec::new();
        for _ in 0..9 {
            attempts.on_failed(now, local, remote);
            assert_eq!(attempts.waiting().count(), 1);
            assert!(!attempts.handle_timeout(now));
            let again = attempts.timeout().unwrap();
            waits.push(again.since(now).as_secs());
            now = again;
            assert!(attempts.handle_timeout(now));
            assert_eq!((attempts.waiting().count(), attempts.timeout()), (0, None), "nothing fires twice");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        attempts.on_answered(local, remote);
        attempts.on_failed(now, local, remote);
        assert_eq!(attempts.timeout(), Some(now + FIRST_WAIT));
        attempts.keep(|ip| Some(ip) != local);
        assert_eq!(attempts.timeout(), None);
        attempts.refuse(local, remote);
        assert_eq!((attempts.waiting().count(), attempts.timeout()), (1, None), "until the networks change");
        attempts.keep(|_| true);
        assert_eq!(attempts.waiting().count(), 0);
    }

    #[test]
    fn they_do_not_pile_up() {
        let mut attempts = Attempts::default();
        for number in 0..=255 {
            let (local, remote) = pair(number);
            attempts.on_failed(Time::ZERO, local, remote);
        }
        assert_eq!(attempts.0.len(), MOST);
    }
}
