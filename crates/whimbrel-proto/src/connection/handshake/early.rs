//! For how long a client may begin again what it has sent early. The server remembers a session for as long as a PING for it may come; a
//! PING after that would deliver the same data once more.

use crate::Time;
use crate::crypto::COOKIE_LIFE;
use crate::handshake::EARLY_WINDOW;

/// What was sent before PONG, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) struct Early {
    /// The first PING went out that had keys for early data, whether or not there was any.
    since: Option<Time>,
    /// Messages were in that PING, in a later one, or in early packets.
    said: bool,
}

impl Early {
    /// A PING is made.
    pub(in crate::connection) fn on_ping(&mut self, now: Time, has_keys: bool, carries: bool) {
        if has_keys {
            self.since.get_or_insert(now);
        }
        self.said |= carries;
    }

    /// An early packet carries messages.
    pub(in crate::connection) fn on_said(&mut self) {
        self.said = true;
    }

    /// No PING may offer early data any more.
    pub(in crate::connection) fn is_over(self, now: Time) -> bool {
        self.since.is_some_and(|since| now >= since + EARLY_WINDOW)
    }

    /// No other PING may be made: what was said may have arrived.
    pub(in crate::connection) fn is_committed(self, now: Time) -> bool {
        self.said && self.is_over(now)
    }

    /// From then on no PING that was made can be answered, if its pass was a cookie.
    pub(in crate::connection) fn hopeless_at(self) -> Option<Time> {
        self.since.filter(|_| self.said).map(|since| since + EARLY_WINDOW + COOKIE_LIFE)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_window_begins_with_the_first_ping_that_has_early_keys() {
        let mut early = Early::default();
        early.on_ping(at(1), false, false);
        assert!(!early.is_over(at(100)), "nothing can be early");
        early.on_ping(at(2), true, false);
        early.on_ping(at(5), true, false);
        assert!(!early.is_over(at(11)) && early.is_over(at(12)));
        assert_eq!((early.is_committed(at(12)), early.hopeless_at()), (false, None), "nothing was said");
        early.on_said();
        assert!(!early.is_committed(at(11)) && early.is_committed(at(12)));
        assert_eq!(early.hopeless_at(), Some(at(22)));
    }
}
