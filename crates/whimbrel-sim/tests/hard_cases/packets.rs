//! Packet sizes and ECN marks.

use whimbrel_proto::Event;
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::{SECOND, config, transfer};

#[test]
fn discovery_finds_the_largest_packet_a_smaller_link_takes() {
    for mtu in [1228usize, 1280, 1350, 1400, 1492, 1500, 9000] {
        let mut pair = Pair::connected(20, config(), &format!("delay=10ms,rate=50mbit,mtu={mtu}"));
        transfer(&mut pair, End::Client, 3000, 1000, 10 * SECOND);
        let found = usize::from(pair.stats(End::Client).paths[0].mtu);
        let right = (mtu - 28).min(1472);
        assert!(found <= right && found + 20 >= right.min(1472), "link {mtu}: found {found}");
        let named = pair.events(End::Client).iter().rev().find_map(|event| match event {
            Event::MaxUnfragmented(size) => Some(*size),
            _ => None,
        });
        assert!(found == 1200 || named.is_some(), "the application is told");
    }
}

#[test]
fn a_path_whose_mtu_drops_under_way_is_a_black_hole_for_a_moment_only() {
    let mut pair = Pair::connected(21, config(), "delay=10ms,rate=20mbit,mtu=1500");
    transfer(&mut pair, End::Client, 100, 10_000, 5 * SECOND);
    assert_eq!(pair.stats(End::Client).paths[0].mtu, 1472);
    pair.relink("delay=10ms,rate=20mbit,mtu=1300");
    let took = transfer(&mut pair, End::Client, 100, 10_000, 10 * SECOND);
    assert!(took < 2 * SECOND, "{took:?}");
    assert!(pair.stats(End::Client).paths[0].mtu <= 1272);
}

#[test]
fn ecn_marks_reach_the_controller() {
    let run = |mark: &str| {
        let mut config = config();
        config.congestion = whimbrel_proto::congestion::Congestion::Cubic;
        let mut pair = Pair::connected(22, config, &format!("delay=20ms,rate=4mbit,queue=400ms{mark}"));
        let took = transfer(&mut pair, End::Client, 3000, 1000, 20 * SECOND);
        let client = pair.client;
        let link = pair.world.link(client, SERVER).stats().clone();
        (took, link.ce_marked, link.queue_drops, link.queue_delay.quantile(0.95))
    };
    let (plain, none, _, unmarked_delay) = run("");
    let (marked_took, marks, drops, delay) = run(",ecn_mark=20ms");
    assert_eq!(none, 0);
    assert!(marks > 0);
    assert_eq!(drops, 0, "marks come before drops");
    assert!(delay < unmarked_delay, "marks shorten the queue: {delay:?} and {unmarked_delay:?} without");
    assert!(marked_took < plain * 2);
}
