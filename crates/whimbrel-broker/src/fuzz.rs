//! The bodies of the broker's fuzz targets: each takes any bytes, and panics if a guarantee is violated. `fuzz/` runs them with libFuzzer.

use bytes::Bytes;
use whimbrel_pubsub::frame::{BrokerFrame, ClientFrame, SubscriberFrame, SubscriptionFrame};
use whimbrel_pubsub::message::Draft;
use whimbrel_pubsub::property::{Properties, Value};

use crate::backbone::read_again;
use crate::selector::Selector;

/// Frames of clients, subscriptions and brokers. The first byte chooses the kind. What was read is written, and read as the same.
pub fn frames(input: &[u8]) {
    let Some((kind, frame)) = input.split_first() else { return };
    let frame = Bytes::copy_from_slice(frame);
    match kind % 5 {
        0 => {
            if let Ok(read) = ClientFrame::parse(&frame) {
                assert_eq!(ClientFrame::parse(&read.encode()), Ok(read));
            }
        }
        1 => {
            if let Ok(read) = BrokerFrame::parse(&frame) {
                assert_eq!(BrokerFrame::parse(&read.encode()), Ok(read));
            }
        }
        2 => {
            if let Ok(read) = SubscriberFrame::parse(&frame) {
                assert_eq!(SubscriberFrame::parse(&read.encode()), Ok(read));
            }
        }
        3 => {
            if let Ok(read) = SubscriptionFrame::parse(&frame) {
                assert_eq!(SubscriptionFrame::parse(&read.encode()), Ok(read));
            }
        }
        _ => assert!(read_again(&frame), "a frame between brokers reads differently"),
    }
}

/// A selector: its normal form parses to an equal one, and says the same of a message.
pub fn selector(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(selector) = Selector::parse(text) else { return };
    let normal = selector.to_string();
    let again = Selector::parse(&normal);
    assert_eq!(again.as_ref(), Ok(&selector), "{normal}");
    let pairs = [
        ("a", Value::Integer(5)),
        ("b", Value::Float(-2.5)),
        ("c", Value::Text("aaab")),
        ("d", Value::Boolean(true)),
    ];
    let Ok(properties) = Properties::new(pairs) else { return };
    let draft = Draft { topic: "t", properties: properties.as_bytes(), ..Draft::default() };
    let Ok(message) = draft.finish() else { return };
    let is_taken = selector.matches(&message);
    for (name, value) in pairs {
        // What a true selector implies includes what the message has.
        assert!(!is_taken || selector.implied(name).allows(Some(value)), "{normal}: {name}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_targets_take_any_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            text in "[abcd '%_()=<>+*/.0-9-]{0,12}( (AND|OR|LIKE|IN|NOT|IS NULL|BETWEEN) [abcd'%_()=0-9]{0,8}){0,4}",
        ) {
            frames(&bytes);
            selector(&bytes);
            selector(text.as_bytes());
        }
    }
}
