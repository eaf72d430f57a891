use proptest::prelude::*;

use super::*;
use crate::coverage::Range;
use crate::frame::RefusalCode;
use crate::message::{BrokerId, Origin};

fn some_coverage() -> Coverage {
    let mut coverage = Coverage::default();
    let origin = Origin { broker: BrokerId(1), epoch: 2 };
    coverage.entry(ChannelId(0)).unwrap().insert(origin, Range { first: 1, last: 9 }).unwrap();
    coverage
}

#[test]
fn frames_come_back() {
    let semi = |start| Kind::SemiDurable {
        id: SubscriptionId(4),
        generation: 3,
        cluster: Some(ClusterId(2)),
        start,
    };
    let kinds = [
        Kind::Nondurable,
        semi(Start::Live),
        semi(Start::Held),
        semi(Start::Coverage(some_coverage())),
        Kind::Durable { name: "boat".into(), generation: 1, coverage: some_coverage() },
    ];
    let recoveries = [
        Recover::First,
        Recover::Beside,
        Recover::NewestPerKey,
        Recover::MaxAge(Duration::from_secs(600)),
        Recover::First,
    ];
    let slows = [Slow::Wait, Slow::DropOldest(9), Slow::ReplaceByKey, Slow::Disconnect(300), Slow::Wait];
    for ((kind, recover), slow) in kinds.into_iter().zip(recoveries).zip(slows) {
        let selector = Some("price > 10".to_owned()).filter(|_| slow != Slow::Wait);
        let subscribe = Subscribe { filter: "fish/#".into(), selector, kind, recover, slow };
        let frame = SubscriberFrame::Subscribe(subscribe);
        assert_eq!(SubscriberFrame::parse(&frame.encode()), Ok(frame));
    }
    for frame in [SubscriberFrame::Acknowledge(some_coverage()), SubscriberFrame::End("boat".into())] {
        assert_eq!(SubscriberFrame::parse(&frame.encode()), Ok(frame));
    }
    for frame in [
        SubscriptionFrame::Subscribed(Subscribed {
            selector: Some("price > 10".into()),
            channels: vec![ChannelId(0), ChannelId(7)],
        }),
        SubscriptionFrame::Attached(Attached {
            subscribed: Subscribed { selector: None, channels: vec![ChannelId(7)] },
            generation: 300,
            unconfirmed: vec![BrokerId(u64::MAX), BrokerId(2)],
        }),
        SubscriptionFrame::Ended(Refusal::new(RefusalCode::Superseded, "attached elsewhere")),
        SubscriptionFrame::Unsubscribed(true),
    ] {
        assert_eq!(SubscriptionFrame::parse(&frame.encode()), Ok(frame));
    }
}

proptest! {
    #[test]
    fn any_bytes_panic_nowhere(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        drop(SubscriberFrame::parse(&bytes));
        drop(SubscriptionFrame::parse(&bytes.into()));
    }
}
