//! How fast windows are read, compared with the time the peer takes to hear of the next one.

use std::time::Duration;

use crate::Time;
use crate::session::message::DomainKey;

/// The shortest delay counted. Readers on a busy machine are this late anyway, so a shorter one must not make windows
/// small.
const LEAST: Duration = Duration::from_millis(20);

/// How a window should change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Pace {
    /// A part of it was read within about one delay, so it may be holding the peer back. A window this many times as
    /// large would not.
    Faster(u64),
    Same,
    /// A part of it was not read for many delays.
    Slower,
}

/// The smoothed time from a grant to its acknowledgement.
#[derive(Debug, Default)]
pub(in crate::session) struct GrantDelay {
    measured: Option<Duration>,
    /// The grant that is being timed.
    probe: Option<(DomainKey, Time)>,
}

impl GrantDelay {
    pub(in crate::session) fn on_sent(&mut self, now: Time, key: DomainKey) {
        self.probe.get_or_insert((key, now));
    }

    pub(in crate::session) fn on_acked(&mut self, now: Time, key: DomainKey) {
        if let Some((_, sent)) = self.probe.take_if(|(probed, _)| *probed == key) {
            let delay = now.since(sent);
            self.measured = Some(self.measured.map_or(delay, |old| (old * 3 + delay) / 4));
        }
    }

    pub(in crate::session) fn on_lost(&mut self, key: DomainKey) {
        self.probe.take_if(|(probed, _)| *probed == key);
    }

    /// Returns the pace of a window that was last renewed at `renewed`.
    pub(in crate::session) fn pace(&self, now: Time, renewed: Option<Time>) -> Pace {
        let (Some(delay), Some(renewed)) = (self.measured, renewed) else { return Pace::Faster(4) };
        let (delay, took) = (delay.max(LEAST), now.since(renewed));
        match took {
            // A window that holds the peer back is read completely within a little more than one delay.
            _ if took <= delay * 3 / 2 => Pace::Faster(4),
            _ if took <= delay * 2 => Pace::Faster(2),
            _ if took <= delay * 16 => Pace::Same,
            _ => Pace::Slower,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::numbers::{Domain, StreamSlot};

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn windows_read_within_a_few_delays_grow() {
        let key = |slot| DomainKey { slot: StreamSlot(slot), generation: 0, domain: Domain(0) };
        let mut delay = GrantDelay::default();
        assert_eq!(delay.pace(at(1000), Some(at(0))), Pace::Faster(4), "nothing is known yet");
        delay.on_sent(at(0), key(1));
        delay.on_sent(at(50), key(2));
        delay.on_acked(at(60), key(2));
        delay.on_acked(at(100), key(1));
        assert_eq!(delay.pace(at(150), Some(at(0))), Pace::Faster(4));
        assert_eq!(delay.pace(at(200), Some(at(0))), Pace::Faster(2));
        assert_eq!(delay.pace(at(201), Some(at(0))), Pace::Same);
        assert_eq!(delay.pace(at(1601), Some(at(0))), Pace::Slower);
        assert_eq!(delay.pace(at(1601), None), Pace::Faster(4));
        delay.on_sent(at(0), key(1));
        delay.on_lost(key(1));
        delay.on_sent(at(300), key(1));
        delay.on_acked(at(300), key(1));
        assert_eq!(delay.pace(at(151), Some(at(0))), Pace::Same, "on average 75 ms");
    }
}
