//! The bus that joins the brokers. It loses, delays, reorders, and is cut in two at times.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::buffer::{GapAnswer, GapRequest};
use whimbrel_pubsub::message::{Message, Origin, Stamp};

/// Something that brokers send each other.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Message(Stamp, Message, Duration),
    Heads(Origin, Vec<(Origin, u64)>),
    Request(GapRequest),
    Answer(Origin, GapAnswer),
}

/// Nothing is longer on its way.
pub(crate) const LONGEST_WAY: Duration = Duration::from_millis(900);

#[derive(Debug, Default)]
pub(crate) struct Bus {
    flights: BTreeMap<(Duration, u64), (usize, usize, Frame)>,
    number: u64,
    /// The share of frames that are lost.
    pub(crate) loss: f64,
    /// A bit for each node on one side of a cut.
    pub(crate) side: u32,
}

impl Bus {
    pub(crate) fn send(&mut self, now: Duration, from: usize, to: usize, frame: Frame, rng: &mut ChaCha8Rng) {
        if self.is_cut(from, to) || rng.random_bool(self.loss) {
            return;
        }
        let slow = rng.random_bool(0.1);
        let longest = if slow { LONGEST_WAY } else { Duration::from_millis(60) };
        let way = rng.random_range(Duration::from_millis(1)..=longest);
        self.number += 1;
        self.flights.insert((now + way, self.number), (from, to, frame));
    }

    /// The next frame that arrives by `now`.
    pub(crate) fn land(&mut self, now: Duration) -> Option<(usize, usize, Frame)> {
        let first = self.flights.first_entry().filter(|first| first.key().0 <= now)?;
        let (from, to, frame) = first.remove();
        if self.is_cut(from, to) { self.land(now) } else { Some((from, to, frame)) }
    }

    /// Whether a copy of a message is on its way.
    pub(crate) fn carries(&self, origin: Origin, sequence: u64) -> bool {
        let is_it = |stamp: &Stamp| (stamp.origin, stamp.sequence) == (origin, sequence);
        self.flights.values().any(|(from, to, frame)| {
            !self.is_cut(*from, *to)
                && match frame {
                    Frame::Message(stamp, ..) => is_it(stamp),
                    Frame::Answer(_, answer) => answer.messages.iter().any(|(stamp, ..)| is_it(stamp)),
                    Frame::Heads(..) | Frame::Request(_) => false,
                }
        })
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        (self.side >> one) & 1 != (self.side >> other) & 1
    }
}
