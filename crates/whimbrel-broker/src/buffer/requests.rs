//! The requests to other brokers for missing messages.

use whimbrel_pubsub::coverage::Range;

use super::answer::GapRequest;
use super::asking::Asking;
use super::channel::Channel;
use super::origin_log::OriginLog;
use crate::Time;

/// The most ranges in one question.
pub(super) const MOST_ASKED: usize = 64;

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
