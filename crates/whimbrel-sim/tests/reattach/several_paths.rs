//! Sessions with more than one network.

use whimbrel_proto::{Event, PathId};
use whimbrel_sim::pair::End;

use super::{DARK, LINK, SECOND, detached, reattached, received, send, two, working};

#[test]
fn whichever_network_is_back_first_is_used_and_then_all_of_them() {
    for back in 0..2 {
        let (mut pair, other) = two(15);
        for network in [0, other] {
            pair.relink_over(network, DARK);
        }
        assert!(pair.run_until(60 * SECOND, |pair| End::BOTH.iter().all(|end| detached(pair, *end))));
        pair.run(20 * SECOND);
        pair.relink_over([0, other][back], LINK);
        send(&mut pair, End::Client, 0..10);
        send(&mut pair, End::Server, 0..10);
        pair.run(SECOND);
        for end in End::BOTH {
            assert_eq!(received(&mut pair, end).len(), 10, "{end:?}, network {back} back");
        }
        pair.relink_over([other, 0][back], LINK);
        let both = pair.run_until(10 * SECOND, |pair| working(pair) == 2);
        assert!(both, "network {back} back first: {:?}", pair.stats(End::Client).paths);
    }
}

/// A path that was given up before its connection is not given up again together with it.
#[test]
fn a_path_is_closed_once_also_where_the_peer_never_heard_of_it() {
    let (mut pair, other) = two(18);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    pair.relink_over(other, DARK);
    pair.world.take_down(client, 0);
    pair.world.announce(client, handle);
    send(&mut pair, End::Client, 0..10);
    assert!(pair.run_until(60 * SECOND, |pair| detached(pair, End::Client)));
    pair.world.set_up(client, 0);
    pair.world.announce(client, handle);
    assert!(pair.run_until(10 * SECOND, |pair| reattached(pair, End::Client).is_some()));
    let events = pair.events(End::Client);
    let id = |event: &Event| if let Event::PathClosed(path) = event { Some(path.id) } else { None };
    let mut closed: Vec<_> = events.iter().filter_map(id).collect();
    let count = closed.len();
    closed.sort_unstable();
    closed.dedup();
    assert!(closed.len() == count && closed.contains(&PathId(0)), "{events:?}");
}
