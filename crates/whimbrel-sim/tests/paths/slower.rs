//! A link that comes back much slower than it was, mostly with another address of the client: the client's packets come
//! through a NAT that rebound, or over another network.

use super::*;

const LINK: &str = "delay=10ms";

/// The link fails for three seconds, during which the client's address changes if `rebinds`. It comes back as `link`.
fn comes_back(seed: u64, link: &str, rebinds: bool) {
    let mut pair = Pair::connected(seed, config(), LINK);
    talk(&mut pair, 2 * SECOND);
    pair.relink(DARK);
    talk(&mut pair, 3 * SECOND);
    if rebinds {
        pair.world.rebind(pair.client);
    }
    pair.relink(link);
    let before = pair.now();
    let mut got = [0, 0];
    // What was queued during the outage comes first.
    for end in End::BOTH {
        pair.send(end, Service::ReliableSequenced, "back?");
    }
    let back = pair.run_until(60 * SECOND, |pair| {
        for (got, end) in got.iter_mut().zip(End::BOTH) {
            *got += pair.recv(end).iter().filter(|message| message.payload == "back?").count();
        }
        got == [1, 1]
    });
    let took = pair.now().since(before);
    let stats = End::BOTH.map(|end| pair.stats(end).paths);
    assert!(back, "seed {seed}, {link}, rebinds: {rebinds}: {got:?} {stats:?}");
    assert!(took < 15 * SECOND, "seed {seed}, {link}, rebinds: {rebinds}: {took:?}");
    if rebinds {
        let moved = |event: &Event| matches!(event, Event::PeerAddressChanged { .. });
        assert!(pair.events(End::Server).iter().any(moved), "{:?}", pair.events(End::Server));
    }
    talk(&mut pair, 5 * SECOND);
    assert!(End::BOTH.iter().all(|end| active(&mut pair, *end) == 1), "{stats:?}");
}

/// Sends something both ways every 50 ms, whether or not it arrives.
fn talk(pair: &mut Pair, time: Duration) {
    let end = pair.now() + time;
    while pair.now() < end {
        for from in End::BOTH {
            pair.send(from, Service::ReliableSequenced, "tick");
            pair.recv(from);
        }
        pair.run(50 * MS);
    }
}

/// Formerly all challenges of the new address were spent and forgotten after a few of the old round trips. Each answer
/// came later than that, so the client was never followed.
#[test]
fn regression_a_client_that_moves_is_followed_over_a_much_slower_link() {
    for (seed, link) in (1..).zip(["delay=60ms", "delay=150ms", "delay=300ms", "delay=600ms"]) {
        comes_back(seed, link, true);
    }
}

#[test]
fn a_client_that_does_not_move_is_heard_over_a_much_slower_link() {
    for (seed, link) in (1..).zip(["delay=60ms", "delay=150ms", "delay=300ms", "delay=600ms"]) {
        comes_back(seed, link, false);
    }
}

/// Challenges and answers get lost as well.
#[test]
fn regression_a_client_that_moves_is_followed_over_a_slower_link_that_loses_packets() {
    for seed in 0..10 {
        comes_back(seed, "delay=150ms,loss=20%", true);
    }
}

/// The server has nothing to say, and the client's packets are few and small: little may be sent to its new address.
#[test]
fn regression_a_client_that_says_little_is_followed_over_a_much_slower_link() {
    let mut pair = Pair::connected(1, config(), LINK);
    talk(&mut pair, 2 * SECOND);
    pair.world.rebind(pair.client);
    pair.relink("delay=400ms");
    pair.send(End::Client, Service::ReliableSequenced, "one");
    let moved = |pair: &mut Pair| {
        pair.events(End::Server).iter().any(|event| matches!(event, Event::PeerAddressChanged { .. }))
    };
    assert!(pair.run_until(10 * SECOND, moved), "{:?}", pair.stats(End::Server).paths);
}
