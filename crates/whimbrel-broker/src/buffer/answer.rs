//! A broker's answer about gaps of another broker.

use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, Message, Origin, Stamp};

use super::channel::Channel;
use super::origin_log::OriginLog;
use crate::Time;

/// A message that a broker still has, with its name and age.
type Had<'a> = (Stamp, &'a Message, Duration);

/// The most messages in one answer.
const MOST_MESSAGES: usize = 256;
/// The most bytes of messages in one answer, or one message: a question is short, and its answer waits in memory.
const MOST_BYTES: usize = 1 << 20;
/// The most ranges of one kind in one answer.
const MOST_RANGES: usize = 256;

/// The most origins that are forgotten for others of which one frame tells.
const MOST_REPLACED: usize = 8;

/// A question for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapRequest {
    /// The broker to ask.
    pub to: BrokerId,
    /// The origin of the messages.
    pub origin: Origin,
    /// Their sequences.
    pub ranges: Vec<Range>,
}

/// An answer to it. What it does not mention may be asked for again.
#[derive(Clone, Debug)]
pub struct GapAnswer {
    /// The run of the broker that answers.
    pub by: Origin,
    /// Messages, each with its age by the monotonic clock of the broker that answers.
    pub messages: Vec<(Stamp, Message, Duration)>,
    /// Messages that the broker had, and no longer has.
    pub gone: Vec<Range>,
    /// Messages that never came to the broker.
    pub absent: Vec<Range>,
}

impl Channel {
    /// Answers a question of another broker.
    pub fn answer(&self, request: &GapRequest, now: Time) -> GapAnswer {
        let mut answer =
            GapAnswer { by: self.own, messages: Vec::new(), gone: Vec::new(), absent: Vec::new() };
        match self.log_of(request.origin) {
            Some((_, log)) => {
                let mut bytes = 0;
                for range in &request.ranges {
                    self.answer_range(log, *range, now, &mut answer, &mut bytes);
                }
            }
            None => answer.absent = request.ranges.iter().copied().take(MOST_RANGES).collect(),
        }
        answer
    }

    fn answer_range(
        &self,
        log: &OriginLog,
        range: Range,
        now: Time,
        answer: &mut GapAnswer,
        bytes: &mut usize,
    ) {
        let room = MOST_RANGES.saturating_sub(answer.absent.len());
        answer.absent.extend(log.received.gaps(range).take(room));
        for part in log.received.within(range) {
            let mut next = part.first;
            for (sequence, (stamp, message, age)) in self.had(log, part, now) {
                let is_full = answer.messages.len() == MOST_MESSAGES || *bytes >= MOST_BYTES;
                if is_full || answer.gone.len() >= MOST_RANGES {
                    return;
                }
                answer.gone.extend(Range::new(next, sequence - 1));
                next = sequence + 1;
                *bytes += message.encoded().len();
                answer.messages.push((stamp, message.clone(), age));
            }
            if answer.gone.len() >= MOST_RANGES {
                return;
            }
            answer.gone.extend(Range::new(next, part.last));
        }
    }

    /// The messages of a range that are here, by sequence: those that the buffer holds, and those that made the last values.
    fn had<'a>(
        &'a self,
        log: &'a OriginLog,
        range: Range,
        now: Time,
    ) -> impl Iterator<Item = (u64, Had<'a>)> + use<'a> {
        let held = log.held(range).filter_map(move |(sequence, slot)| {
            let slot = self.slot(slot)?;
            Some((sequence, (slot.stamp, &slot.message, slot.age(now))))
        });
        let values = self.retained.named(log.origin, range).filter_map(move |(sequence, value)| {
            Some((sequence, (value.stamp, value.written(now)?, value.age(now))))
        });
        let (mut held, mut values) = (held.peekable(), values.peekable());
        std::iter::from_fn(move || match (held.peek(), values.peek()) {
            (Some((one, _)), Some((other, _))) if one == other => {
                values.next();
                held.next()
            }
            (Some((one, _)), Some((other, _))) if one > other => values.next(),
            (Some(_), _) => held.next(),
            (None, _) => values.next(),
        })
    }

    /// Takes the denials of an answer. Its messages are received one by one, with [`Channel::receive`], before.
    pub fn handle_denials(&mut self, origin: Origin, answer: &GapAnswer, now: Time) {
        let sound = |ranges: &[Range]| -> Ranges {
            let sound = ranges.iter().filter(|range| range.first >= 1 && range.first <= range.last);
            sound.copied().take(MOST_RANGES).collect()
        };
        let (gone, mut absent) = (sound(&answer.gone), sound(&answer.absent));
        let settings = &self.settings;
        let Some(log) = self.origins.find_mut(origin).filter(|_| settings.peers.contains(&answer.by.broker))
        else {
            return;
        };
        let never = absent.iter().next().map(|range| range.first).filter(|_| answer.by == origin);
        if let Some(first) = never {
            log.deny_from(first);
            absent = Ranges::default();
        }
        log.denials.note(answer.by, &gone, absent, now);
        self.losses += u64::from(log.conclude(settings, now));
    }

    /// The highest sequences that are known, for other brokers. Send them now and then, also when nothing is published.
    pub fn heads(&self) -> Vec<(Origin, u64)> {
        self.origins
            .iter()
            .map(|(_, log)| (log.origin, log.highest()))
            .filter(|(_, highest)| *highest > 0)
            .collect()
    }

    /// Takes the highest sequences that another broker's run knows.
    pub fn handle_heads(&mut self, by: Origin, heads: &[(Origin, u64)], now: Time) {
        for log in self.origins.iter_mut().filter(|log| log.is_missing_any()) {
            log.denials.hear(by, now);
        }
        let mut replaced = 0;
        for (origin, highest) in heads {
            if *origin == self.own
                || *highest == 0
                || !(self.settings.may_be_origin(origin.broker) || origin.broker == self.own.broker)
            {
                continue;
            }
            // Heads are told again and again, so the others wait.
            if self.origins.is_full() && self.origins.index_of(*origin).is_none() {
                replaced += 1;
                if replaced > MOST_REPLACED {
                    continue;
                }
            }
            if let Some(log) = self.origins.entry(*origin, &self.settings, now) {
                log.hear_from(by, *highest, now);
            }
        }
    }
}
