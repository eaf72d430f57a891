//! Publishers, whose acknowledgements get lost at times.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use whimbrel_pubsub::message::{Draft, Hlc, Index, Message, Publication, PublisherId};

use super::scenario::Scenario;
use super::taste::TOPICS;

#[derive(Debug)]
pub(crate) struct Publisher {
    id: PublisherId,
    number: u64,
    /// When its last acknowledged message was published.
    pub(crate) last: Hlc,
    /// The broker at which it publishes.
    pub(crate) at: usize,
    /// Messages whose acknowledgement was lost, and when they are published again.
    again: Vec<(Duration, Message)>,
}

impl Publisher {
    pub(crate) fn new(id: u128) -> Self {
        Self { id: PublisherId(id), number: 0, last: Hlc::default(), at: 0, again: Vec::new() }
    }

    /// The messages to publish now.
    pub(crate) fn messages(
        &mut self,
        scenario: &Scenario,
        now: Duration,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Message> {
        if rng.random_bool(0.02) {
            self.at = rng.random_range(0..scenario.brokers);
        }
        let due: Vec<Message> =
            self.again.extract_if(.., |(at, _)| *at <= now).map(|(_, message)| message).collect();
        let mut number = scenario.rate as usize;
        number += usize::from(rng.random_bool(scenario.rate.fract()));
        let new: Vec<Message> = (0..number).map(|_| self.new_message(scenario, rng)).collect();
        for message in &new {
            if rng.random_bool(scenario.repeats) {
                self.again
                    .push((now + rng.random_range(Duration::ZERO..Duration::from_secs(4)), message.clone()));
            }
        }
        due.into_iter().chain(new).collect()
    }

    fn new_message(&mut self, scenario: &Scenario, rng: &mut ChaCha8Rng) -> Message {
        self.number += 1;
        let retain = rng.random_bool(scenario.retained);
        let key = [b"a", b"b", b"c"][rng.random_range(0..3)];
        let payload = self.number.to_le_bytes();
        Draft {
            topic: TOPICS[rng.random_range(0..TOPICS.len())],
            properties: &[1, b'v', 17, 1 + rng.random_range(0..10)],
            key: rng.random_bool(0.7).then_some(key),
            index: Index::new(rng.random_range(1..=10)).unwrap(),
            lifetime: rng
                .random_bool(scenario.lifetimes)
                .then(|| Duration::from_millis(rng.random_range(1..6_000))),
            retain,
            possibly_repeated: false,
            publication: Some(Publication { publisher: self.id, number: self.number }),
            payload: if retain && rng.random_bool(0.2) { b"" } else { &payload },
        }
        .finish()
        .unwrap()
    }
}
