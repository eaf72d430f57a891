//! Counters and budgets go on over the next connection.

use std::time::Duration;

use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Event, StreamId};
use whimbrel_sim::pair::{End, Pair};

use super::{LINK, RS, RTT, SECOND, config, darken, reattached, send};

/// Counters of before an outage are not lost with the connection.
#[test]
fn figures_go_on_over_the_next_connection() {
    let mut roomy = config();
    // Nobody reads here.
    roomy.session.stream_share = 8 << 20;
    let mut pair = Pair::connected(16, roomy, LINK);
    let counts = |pair: &mut Pair, end| {
        let total = pair.stats(end).total;
        [
            total.sent_packets,
            total.sent_bytes,
            total.sent_wire_bytes,
            total.received_packets,
            total.received_bytes,
            total.acked_packets,
        ]
    };
    let mut before = End::BOTH.map(|_| [0; 6]);
    for round in 0..3 {
        for (at, end) in End::BOTH.into_iter().enumerate() {
            send(&mut pair, end, 0..1000);
            pair.run(3 * SECOND);
            let now = counts(&mut pair, end);
            let grown = now.iter().zip(before[at]).all(|(now, before)| *now > before + 20);
            assert!(grown, "round {round}, {end:?}: {now:?} after {:?}", before[at]);
            before[at] = now;
        }
        darken(&mut pair);
        pair.relink(LINK);
        pair.run(3 * SECOND);
    }
    for end in End::BOTH {
        let events = pair.events(end);
        let closed: Vec<_> = events
            .iter()
            .filter_map(|event| if let Event::PathClosed(path) = event { Some(path) } else { None })
            .collect();
        assert_eq!(closed.len(), 3, "one for each connection: {events:?}");
        assert!(closed.iter().all(|path| path.acked_packets > 20 && path.rtt >= RTT), "{closed:?}");
        let acked: u64 = closed.iter().map(|path| path.acked_packets).sum();
        let rest: u64 = pair.stats(end).paths.iter().map(|path| path.acked_packets).sum();
        assert_eq!(pair.stats(end).total.acked_packets, acked + rest);
    }
}

/// The budget of the deadline rule is a share of what was sent, whichever connection carried it.
#[test]
fn the_deadline_budget_goes_on_over_the_next_connection() {
    let mut config = config();
    config.deadline_budget = 3;
    // Nobody reads here.
    config.session.stream_share = 8 << 20;
    let mut pair = Pair::connected(17, config, LINK);
    let mortal = |pair: &mut Pair, count| {
        for _ in 0..count {
            let lifetime = Some(Duration::from_millis(60));
            let message = Outgoing { lifetime, ..Outgoing::new(StreamId(0), RS, vec![1; 100].into()) };
            pair.try_send(End::Client, message).expect("there is room");
            pair.run(Duration::from_millis(10));
        }
        pair.stats(End::Client).deadlines
    };
    for _ in 0..100 {
        pair.send(End::Client, RS, vec![1; 20_000]);
    }
    pair.run(5 * SECOND);
    let spent = mortal(&mut pair, 200);
    assert_eq!((spent.messages, spent.refused), (200, 0), "of 60 kB 40 are spent");
    darken(&mut pair);
    pair.relink(LINK);
    pair.run(3 * SECOND);
    assert!(reattached(&mut pair, End::Client).is_some());
    let spent = mortal(&mut pair, 50);
    assert_eq!((spent.messages, spent.refused), (250, 0), "there are 20 left");
}
