//! Replays a full buffer to one subscription again and again, to be counted by callgrind:
//!
//! ```text
//! cargo build --release -p whimbrel-broker --example replay
//! for rounds in 10 20; do valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/replay $rounds; done
//! ```
//!
//! The difference of the two counts, over ten times 20,000 messages, is the cost of a message. With a second argument, only so many of
//! ten messages match.

use std::sync::Arc;

use whimbrel_broker::buffer::{Channel, ChannelSettings, Picks};
use whimbrel_broker::roaming::{From, Read, Reader, Recover, Slow, Wanted, Wish};
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Message, Origin};

const MESSAGES: u64 = 20_000;

/// Picks so many of ten messages.
#[derive(Debug)]
struct Share(u8);

impl Picks for Share {
    fn picks(&self, message: &Message) -> bool {
        message.properties().last().is_none_or(|value| *value <= self.0)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let rounds = arguments.next().unwrap_or(1);
    let share = arguments.next().unwrap_or(10) as u8;
    let own = Origin { broker: BrokerId(1), epoch: 1 };
    let mut channel = Channel::new(ChannelSettings::new(ChannelId(0)), own, Time::ZERO);
    for number in 0..MESSAGES {
        let draft = Draft {
            topic: "t",
            properties: &[1, b'v', 17, 1 + (number % 10) as u8],
            payload: &[0; 128],
            ..Draft::default()
        };
        let message = draft.finish().expect("a message");
        channel.publish(message, Now { time: Time::ZERO, wall_ms: number }).expect("taken");
    }
    let delivered: u64 = (0..rounds).map(|_| replay(&channel, share)).sum();
    println!("{delivered} messages were delivered");
}

fn replay(channel: &Channel, share: u8) -> u64 {
    let wanted = Wanted { picks: Arc::new(Share(share)), reach: Vec::new() };
    let wish = Wish { wanted, from: From::Held, recover: Recover::First, slow: Slow::Wait };
    let mut reader = Reader::attach(channel, wish, Time::ZERO);
    let mut delivered = 0;
    loop {
        match reader.read(channel, Time::ZERO, true, &mut 1_000) {
            Read::Told(Told::Delivery(_)) => delivered += 1,
            Read::Told(_) | Read::More => {}
            Read::Idle | Read::TooSlow => return delivered,
        }
    }
}
