//! When which broker is asked for what is missing.

use std::time::Duration;

use whimbrel_pubsub::coverage::Range;

use super::{Channel, GapRequest, OriginLog};
use crate::Time;

/// The most ranges in one question.
pub(super) const MOST_ASKED: usize = 64;

/// The questions about one origin.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// When the next is due; `None` while nothing is missing.
    due: Option<Due>,
    turn: usize,
    /// The time between two questions, as a power of two of the first.
    backoff: u32,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    /// As soon as the gap has been there for the usual time.
    After(Time),
    At(Time),
}

impl Asking {
    /// A gap appeared.
    pub(super) fn on_gap(&mut self, now: Time) {
        if self.due.is_none() {
            self.due = Some(Due::After(now));
        }
    }

    /// Something came, so the next question need not wait long.
    pub(super) fn on_progress(&mut self, now: Time) {
        if self.due.is_some() && self.backoff > 0 {
            (self.backoff, self.due) = (0, Some(Due::After(now)));
        }
    }

    /// Somebody waits for what is missing.
    pub(super) fn at_once(&mut self, now: Time) {
        (self.backoff, self.due) = (0, Some(Due::At(now)));
    }

    fn is_due(&self, after: Duration, now: Time) -> bool {
        match self.due {
            None => false,
            Some(Due::After(since)) => since + after <= now,
            Some(Due::At(at)) => at <= now,
        }
    }

    /// Takes the next turn among `candidates`.
    fn ask(&mut self, candidates: usize, first: Duration, most: Duration, now: Time) -> usize {
        let turn = self.turn % candidates;
        self.turn = turn + 1;
        let wait = first.saturating_mul(1 << self.backoff.min(16)).min(most / candidates as u32);
        // Everybody is asked once before the wait grows.
        if self.turn == candidates {
            self.backoff = (self.backoff + 1).min(16);
        }
        self.due = Some(Due::At(now + wait));
        turn
    }
}

impl Channel {
    /// The questions that are due, for other brokers. Ask again after `ask_after`, or whenever something came.
    pub fn poll_requests(&mut self, now: Time) -> Vec<GapRequest> {
        let settings = &self.settings;
        let (after, most) = (settings.ask_after, settings.ask_at_least_every);
        let mut requests = Vec::new();
        for log in self.origins.iter_mut() {
            if !log.asking.is_due(after, now) {
                continue;
            }
            if !log.is_missing_any() || settings.peers.is_empty() {
                log.asking = Asking::default();
                continue;
            }
            // A denial may mean more now than when it was said.
            self.losses += u64::from(log.conclude(settings, now));
            let turn = log.asking.ask(settings.peers.len(), after, most, now);
            let Some(to) = log.candidates(&settings.peers).nth(turn) else { continue };
            let ranges = worth_asking(log, to);
            if !ranges.is_empty() {
                requests.push(GapRequest { to, origin: log.origin, ranges });
            }
        }
        requests
    }

    /// Has what is missing asked for at once, since a subscription waits for it.
    pub fn ask_at_once(&mut self, now: Time) {
        for log in self.origins.iter_mut().filter(|log| log.is_missing_any()) {
            log.asking.at_once(now);
        }
    }
}

fn worth_asking(log: &OriginLog, to: whimbrel_pubsub::message::BrokerId) -> Vec<Range> {
    log.missing().filter(|range| !log.denials.is_gone(to, *range)).take(MOST_ASKED).collect()
}
