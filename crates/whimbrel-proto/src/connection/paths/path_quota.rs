//! A limit on paths to addresses that the peer announced and that may be anybody's.

use std::time::Duration;

use crate::Time;

const MINUTE: Duration = Duration::from_secs(60);
/// The most paths a minute to addresses that never answered.
const MOST: u32 = 8;

/// The paths opened in the current minute.
#[derive(Debug, Default)]
pub(in crate::connection) struct PathQuota {
    /// The current minute since the clock began.
    minute: u64,
    opened: u32,
    /// Whether more are wanted when the minute is over.
    wanted: bool,
}

impl PathQuota {
    /// Returns whether one more may be opened now. If not, it is remembered as wanted.
    pub(in crate::connection) fn may_open(&mut self, now: Time) -> bool {
        let minute = now.since(Time::ZERO).as_secs() / MINUTE.as_secs();
        if self.minute != minute {
            *self = Self { minute, ..Self::default() };
        }
        let may = self.opened < MOST;
        self.wanted |= !may;
        may
    }

    pub(in crate::connection) fn on_opened(&mut self) {
        self.opened += 1;
    }

    /// Returns when the paths that are wanted may be opened.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        self.wanted.then(|| Time::ZERO + Duration::from_secs((self.minute + 1) * MINUTE.as_secs()))
    }

    /// Returns whether paths that were wanted may be opened now.
    pub(in crate::connection) fn handle_timeout(&mut self, now: Time) -> bool {
        let due = self.timeout().is_some_and(|due| due <= now);
        self.wanted &= !due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_too_much_has_its_turn_in_the_next_minute() {
        let (mut quota, now) = (PathQuota::default(), Time::ZERO + Duration::from_secs(90));
        for _ in 0..MOST {
            assert!(quota.may_open(now) && quota.may_open(now), "asking counts for nothing");
            quota.on_opened();
        }
        assert_eq!(quota.timeout(), None);
        assert!(!quota.may_open(now));
        let turn = Time::ZERO + 2 * MINUTE;
        assert_eq!(quota.timeout(), Some(turn));
        assert!(!quota.handle_timeout(now) && quota.handle_timeout(turn));
        assert_eq!(quota.timeout(), None, "once");
        assert!(quota.may_open(turn));
    }
}
