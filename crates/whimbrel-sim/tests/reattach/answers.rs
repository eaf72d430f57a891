//! The answer to the dialling client is the last to get through, or the first.

use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

use super::{DARK, LINK, SECOND, config, darken, detached, reattached, received, send};

#[test]
fn an_answer_that_is_the_last_to_get_through_locks_nobody_out() {
    // PONG arrives. Nothing that follows does, for longer than the new connection lives. The next one continues from
    // there.
    for rounds in 1..4 {
        let mut pair = Pair::connected(13, config(), LINK);
        send(&mut pair, End::Client, 0..10);
        send(&mut pair, End::Server, 0..10);
        pair.run(SECOND);
        darken(&mut pair);
        for _ in 0..rounds {
            let before = reattached(&mut pair, End::Client);
            let server = pair.world.address(SERVER);
            pair.world.set_tap(Box::new(move |_, _, to, bytes| {
                let sealed = bytes[0] & 0x80 == 0;
                if sealed && to == server { TapVerdict::Drop } else { TapVerdict::Pass }
            }));
            pair.relink(LINK);
            assert!(pair.run_until(3 * SECOND, |pair| reattached(pair, End::Client) != before));
            send(&mut pair, End::Client, 10..20);
            pair.relink(DARK);
            assert!(pair.run_until(30 * SECOND, |pair| detached(pair, End::Client)), "it has given up again");
            assert!(reattached(&mut pair, End::Server).is_none(), "it has heard of nothing");
        }
        pair.world.set_tap(Box::new(|_, _, _, _| TapVerdict::Pass));
        pair.relink(LINK);
        pair.run(4 * SECOND);
        let sent: Vec<u64> = (0..10).chain((0..rounds).flat_map(|_| 10..20)).collect();
        assert_eq!(received(&mut pair, End::Server), sent, "{rounds} rounds");
        assert_eq!(received(&mut pair, End::Client).len(), 10);
        assert!(reattached(&mut pair, End::Server).is_some());
    }
}

#[test]
fn an_outage_right_after_the_answer_is_survived_too() {
    // The new connection stands as long as the peer may believe that it does.
    let mut patient = config();
    patient.idle_timeout = 60 * SECOND;
    let mut pair = Pair::connected(14, patient, LINK);
    pair.relink(DARK);
    assert!(pair.run_until(130 * SECOND, |pair| End::BOTH.iter().all(|end| detached(pair, *end))));
    let server = pair.world.address(SERVER);
    pair.world.set_tap(Box::new(move |_, _, to, bytes| {
        let sealed = bytes[0] & 0x80 == 0;
        if sealed && to == server { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    pair.relink(LINK);
    assert!(pair.run_until(3 * SECOND, |pair| reattached(pair, End::Client).is_some()));
    pair.run(30 * SECOND);
    pair.world.set_tap(Box::new(|_, _, _, _| TapVerdict::Pass));
    send(&mut pair, End::Client, 0..10);
    pair.run(3 * SECOND);
    assert_eq!(received(&mut pair, End::Server).len(), 10);
    assert!(reattached(&mut pair, End::Server).is_some());
}
