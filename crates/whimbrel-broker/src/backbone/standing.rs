//! The link with another broker: whether there is one, and if not, since when, why, and the next step.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::link_report::LinkState;
use crate::Time;

/// The longest reason that is kept, bytes.
const LONGEST_TROUBLE: usize = 512;

/// The standing with another broker, over all sessions with it.
#[derive(Debug, Default)]
pub(super) struct Standing(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Sessions with it.
    open: u32,
    /// The time at which the first of them began, or the last one ended.
    since: Time,
    attempt: Attempt,
    /// Why the last session ended, or the last attempt failed; or why not all is taken that comes in the present one.
    trouble: Option<String>,
}

/// This broker's way to a session.
#[derive(Clone, Copy, Debug, Default)]
enum Attempt {
    /// Nothing: the other dials.
    #[default]
    None,
    /// It dials.
    Now,
    /// It dials at this time.
    At(Time),
}

/// The standing at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    pub(super) state: LinkState,
    /// For how long they have been linked, or not linked.
    pub(super) lasted: Duration,
    /// The time until the next attempt.
    pub(super) next_attempt: Option<Duration>,
    /// Why they are not linked, or not all is taken.
    pub(super) trouble: Option<String>,
}

impl Standing {
    /// A session begins.
    pub(super) fn begin(&self, now: Time) {
        let mut inner = self.inner();
        if inner.open == 0 {
            inner.since = now;
        }
        inner.open += 1;
        inner.trouble = None;
    }

    /// A session ends.
    pub(super) fn end(&self, now: Time) {
        let mut inner = self.inner();
        inner.open = inner.open.saturating_sub(1);
        if inner.open == 0 {
            inner.since = now;
        }
    }

    /// A session ended, or none was made, for this reason. While there is another, that is no trouble.
    pub(super) fn on_trouble(&self, why: &str) {
        let why = &why[..why.floor_char_boundary(LONGEST_TROUBLE)];
        let mut inner = self.inner();
        if inner.open == 0 {
            inner.trouble = Some(why.to_owned());
        }
    }

    /// Not all is taken that comes in the present session, for this reason.
    pub(super) fn on_refused(&self, why: &str) {
        self.inner().trouble = Some(why.to_owned());
    }

    /// The other broker is being dialled.
    pub(super) fn on_dialling(&self) {
        self.inner().attempt = Attempt::Now;
    }

    /// It is dialled at this time.
    pub(super) fn on_pause(&self, until: Time) {
        self.inner().attempt = Attempt::At(until);
    }

    /// Since when there is a session, if there is one.
    pub(super) fn linked_since(&self) -> Option<Time> {
        let inner = self.inner();
        (inner.open > 0).then_some(inner.since)
    }

    /// The standing now.
    pub(super) fn look(&self, now: Time) -> Stand {
        let inner = self.inner();
        let lasted = now.since(inner.since);
        let (state, next_attempt) = match inner.attempt {
            _ if inner.open > 0 => (LinkState::Linked, None),
            Attempt::None => (LinkState::Awaited, None),
            Attempt::Now => (LinkState::Dialling, None),
            Attempt::At(at) => (LinkState::Waiting, Some(at.since(now))),
        };
        Stand { state, lasted, next_attempt, trouble: inner.trouble.clone() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::at(Duration::from_secs(seconds))
    }

    #[test]
    fn a_broker_that_is_not_linked_says_since_when_why_and_what_comes_next() {
        let standing = Standing::default();
        assert_eq!(standing.look(at(3)).state, LinkState::Awaited, "this broker does not dial it");
        standing.on_dialling();
        let stand = standing.look(at(4));
        assert_eq!(
            (stand.state, stand.lasted, stand.trouble),
            (LinkState::Dialling, Duration::from_secs(4), None)
        );
        standing.on_trouble("no answer");
        standing.on_pause(at(6));
        let stand = standing.look(at(5));
        assert_eq!((stand.state, stand.next_attempt), (LinkState::Waiting, Some(Duration::from_secs(1))));
        assert_eq!(stand.trouble.as_deref(), Some("no answer"));
        // Two sessions: the link lasts as long as either.
        standing.begin(at(10));
        standing.begin(at(11));
        standing.end(at(12));
        standing.on_trouble("there is a newer one");
        let linked = Stand {
            state: LinkState::Linked,
            lasted: Duration::from_secs(5),
            next_attempt: None,
            trouble: None,
        };
        assert_eq!(standing.look(at(15)), linked);
        assert_eq!(standing.linked_since(), Some(at(10)));
        standing.end(at(20));
        standing.on_trouble(&"ü".repeat(LONGEST_TROUBLE));
        let stand = standing.look(at(21));
        assert_eq!((stand.lasted, standing.linked_since()), (Duration::from_secs(1), None));
        assert_eq!(stand.trouble.map(|why| why.len()), Some(LONGEST_TROUBLE));
    }
}
