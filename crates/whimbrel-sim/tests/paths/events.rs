//! Events about paths and addresses at both ends.

use whimbrel_proto::{Event, PathState};
use whimbrel_sim::pair::{End, Pair};

use super::primary::over;
use super::{ALIKE, DARK, SECOND, announce, bulk, config, two};

fn count(pair: &mut Pair, end: End, wanted: &Event) -> usize {
    pair.events(end).iter().filter(|event| *event == wanted).count()
}

#[test]
fn a_path_is_suspect_then_down_after_three_unanswered_probes_then_up() {
    for network in 0..2 {
        let mut pair = two(1, config(), ALIKE, ALIKE);
        bulk(&mut pair, SECOND);
        let path = over(&mut pair, network);
        let figures = |pair: &mut Pair| {
            let paths = pair.stats(End::Client).paths;
            *paths.iter().find(|figures| figures.id == path).expect("it is there")
        };
        let ups = count(&mut pair, End::Client, &Event::PathUp(path));
        pair.relink_over(network, DARK);
        let mut sent = [0; 2];
        for (at, event) in [Event::PathSuspect(path), Event::PathDown(path)].into_iter().enumerate() {
            let said = pair.run_until(SECOND, |pair| count(pair, End::Client, &event) == 1);
            assert!(said, "{event:?}: {:?}", pair.events(End::Client));
            sent[at] = figures(&mut pair).sent_packets;
        }
        // Two were sent with the suspicion and one in between. The next is sent when these three are given up.
        assert_eq!(sent[1] - sent[0], 2);
        assert_eq!(figures(&mut pair).state, PathState::Down);
        bulk(&mut pair, SECOND);
        assert_eq!(count(&mut pair, End::Client, &Event::PathDown(path)), 1, "once");
        pair.relink_over(network, ALIKE);
        let up = pair.run_until(SECOND, |pair| count(pair, End::Client, &Event::PathUp(path)) == ups + 1);
        assert!(up, "{:?}", pair.events(End::Client));
        assert_eq!(figures(&mut pair).state, PathState::Active);
    }
}

#[test]
fn both_ends_hear_of_addresses_that_go_and_of_the_path_that_goes_with_them() {
    for (node_end, peer_end) in [(End::Client, End::Server), (End::Server, End::Client)] {
        let mut pair = two(2, config(), ALIKE, ALIKE);
        let node = pair.node(node_end);
        let path = over(&mut pair, 1);
        let address = pair.world.addresses(node)[1];
        let added = Event::LocalAddressAdded(address);
        assert_eq!(count(&mut pair, node_end, &added), 1);
        assert_eq!(count(&mut pair, peer_end, &Event::PeerAddressAdded(address)), 1);
        pair.world.take_down(node, 1);
        announce(&mut pair);
        bulk(&mut pair, SECOND);
        assert_eq!(count(&mut pair, node_end, &Event::LocalAddressRemoved(address)), 1, "{node_end:?}");
        assert_eq!(count(&mut pair, peer_end, &Event::PeerAddressRemoved(address)), 1, "{peer_end:?}");
        for end in End::BOTH {
            let events = pair.events(end);
            let closed = |event: &&Event| matches!(event, Event::PathClosed(figures) if figures.id == path);
            assert_eq!(events.iter().filter(closed).count(), 1, "{end:?}: {events:?}");
        }
        pair.world.set_up(node, 1);
        announce(&mut pair);
        bulk(&mut pair, SECOND);
        assert_eq!(count(&mut pair, node_end, &added), 2, "{node_end:?}");
        assert_eq!(count(&mut pair, peer_end, &Event::PeerAddressAdded(address)), 2, "{peer_end:?}");
    }
}
