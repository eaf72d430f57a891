//! A path that is dead in only one direction.

use whimbrel_proto::PathState;
use whimbrel_sim::pair::End;
use whimbrel_sim::world::SERVER;

use super::{ALIKE, DARK, MS, SECOND, active, bulk, config, link, share, two};

#[test]
fn a_path_that_carries_one_way_only_goes_on_carrying_that_way() {
    for seed in 0..8 {
        let mut pair = two(seed, config(), ALIKE, ALIKE);
        let client = pair.client;
        bulk(&mut pair, SECOND);
        // Packets that the server sends over the second network are lost, first of all its SACKs.
        pair.world.link_over(1, SERVER, client).reconfigure(link(DARK));
        let (_, gap) = bulk(&mut pair, 3 * SECOND);
        assert!(gap <= 150 * MS, "seed {seed}: silent for {gap:?}");
        let suspect = |pair: &mut whimbrel_sim::pair::Pair| {
            let stats = pair.stats(End::Server);
            stats.paths.iter().filter(|path| path.state >= PathState::Suspect).count()
        };
        assert_eq!(suspect(&mut pair), 1, "seed {seed}: the server misses answers on one path");
        assert_eq!(active(&mut pair, End::Client), 2, "seed {seed}: the client gets them over the other");
        let (bytes, _) = bulk(&mut pair, 5 * SECOND);
        let both = share(bytes, 5 * SECOND, 20.0);
        assert!(both > 0.9, "seed {seed}: {both:.3} of both");
    }
}

#[test]
fn two_paths_dead_in_opposite_directions_make_one_that_works() {
    for seed in 0..8 {
        let mut pair = two(seed, config(), ALIKE, ALIKE);
        let client = pair.client;
        bulk(&mut pair, SECOND);
        let dead = link(DARK);
        pair.world.link_over(0, SERVER, client).reconfigure(dead.clone());
        pair.world.link_over(1, client, SERVER).reconfigure(dead);
        let (_, gap) = bulk(&mut pair, 4 * SECOND);
        assert!(gap <= 3 * SECOND, "seed {seed}: silent for {gap:?}");
        let (bytes, _) = bulk(&mut pair, 3 * SECOND);
        let one = share(bytes, 3 * SECOND, 10.0);
        assert!(one > 0.5, "seed {seed}: {one:.3} of one");
    }
}
