//! How long a client may repeat in a new PING what it has sent early. The server remembers a session for as long as an
//! early PING for it may arrive. A later PING would deliver the same data again.

use crate::Time;
use crate::crypto::COOKIE_LIFE;
use crate::handshake::EARLY_WINDOW;

/// The early data sent before PONG: whether there was any, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) struct Early {
    /// When the first PING with keys for early data was sent, whether or not it carried any.
    since: Option<Time>,
    /// Whether messages were in that PING, in a later one, or in early packets.
    said: bool,
}

impl Early {
    /// Records that a PING was made.
    pub(in crate::connection) fn on_ping(&mut self, now: Time, has_keys: bool, carries: bool) {
        if has_keys {
            self.since.get_or_insert(now);
        }
        self.said |= carries;
    }

    /// Records that an early packet carries messages.
    pub(in crate::connection) fn on_said(&mut self) {
        self.said = true;
    }

    /// Returns whether no further PING may offer early data.
    pub(in crate::connection) fn is_over(self, now: Time) -> bool {
        self.since.is_some_and(|since| now >= since + EARLY_WINDOW)
    }

    /// Returns whether no further PING may be made, because early messages may have arrived.
    pub(in crate::connection) fn is_committed(self, now: Time) -> bool {
        self.said && self.is_over(now)
    }

    /// Returns when the PINGs made so far can no longer be answered, if they were made with a cookie.
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
