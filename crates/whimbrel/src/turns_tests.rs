use super::*;

/// Pseudo-random numbers from a seed (SplitMix64), for reproducible arrivals.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

/// Each item holds its peer, and its number among that peer's items.
type Numbered = Turns<(usize, u64)>;

fn at(port: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port as u16))
}

fn push(turns: &mut Numbered, peer: usize, from: SocketAddr, size: usize, number: u64) {
    let lane = turns.lane_for(Handle(peer), from);
    turns.push(lane, from, size, (peer, number));
}

/// Serves one turn, at this much time for each item. Returns the peer and the numbers of its items.
fn serve(turns: &mut Numbered, each: Duration) -> Option<(usize, Vec<u64>)> {
    let turn = turns.next()?;
    let (mut spent, mut served) = (Duration::ZERO, Vec::new());
    while spent < turn.time {
        let Some((peer, number)) = turns.take(turn) else { break };
        assert_eq!(Handle(peer), turn.handle);
        served.push(number);
        spent += each;
    }
    turns.end(turn, spent);
    Some((turn.handle.0, served))
}

#[test]
fn a_peer_that_had_nothing_waiting_goes_before_a_backlog() {
    let mut turns = Numbered::default();
    (0..1_000).for_each(|number| push(&mut turns, 0, at(1), 1_000, number));
    assert_eq!(serve(&mut turns, SLICE / 8).unwrap(), (0, (0..8).collect()));
    push(&mut turns, 1, at(2), 64, 0);
    push(&mut turns, 2, at(3), 64, 0);
    assert_eq!(serve(&mut turns, SLICE / 8).unwrap(), (1, vec![0]));
    assert_eq!(serve(&mut turns, SLICE / 8).unwrap(), (2, vec![0]));
    assert_eq!(serve(&mut turns, SLICE / 8).unwrap(), (0, (8..16).collect()));
}

/// The resource shared is time. Many small datagrams, a few expensive ones or large ones get no more of it than
/// others.
#[test]
fn peers_with_a_backlog_have_the_same_time() {
    let mut turns = Numbered::default();
    let cost = [1, 7, 30, 150, 5_000].map(Duration::from_micros);
    let (mut time, mut waiting) = ([Duration::ZERO; 5], [0; 5]);
    for _ in 0..20_000 {
        for (peer, waiting) in waiting.iter_mut().enumerate() {
            while *waiting < 200 {
                push(&mut turns, peer, at(peer), 64 + peer * 400, 0);
                *waiting += 1;
            }
        }
        let turn = turns.next().unwrap();
        let (peer, mut spent) = (turn.handle.0, Duration::ZERO);
        while spent < turn.time && turns.take(turn).is_some() {
            spent += cost[peer];
            waiting[peer] -= 1;
        }
        time[peer] += spent;
        turns.end(turn, spent);
    }
    let most = time.iter().max().unwrap().as_secs_f64();
    let least = time.iter().min().unwrap().as_secs_f64();
    assert!(least > 0.95 * most, "{time:?}");
}

/// A peer that sends one datagram at a time has no backlog, and its lane is empty when others have their turns. It
/// still owes the time that its datagrams took.
#[test]
fn who_sends_one_dear_datagram_at_a_time_gains_nothing() {
    for (cost, pause) in [(150, 0), (150, 2), (1_000, 0), (1_000, 2), (20_000, 0), (20_000, 2)] {
        let (cost, mut time) = (Duration::from_micros(cost), [Duration::ZERO; 2]);
        let (mut turns, mut due) = (Numbered::default(), 0);
        (0..10).for_each(|number| push(&mut turns, 0, at(1), 1_000, number));
        for number in 10..20_000 {
            push(&mut turns, 0, at(1), 1_000, number);
            if number >= due {
                push(&mut turns, 1, at(2), 1_000, number);
                due = u64::MAX;
            }
            let turn = turns.next().unwrap();
            let (peer, mut spent) = (turn.handle.0, Duration::ZERO);
            while spent < turn.time && turns.take(turn).is_some() {
                spent += [SLICE, cost][peer];
            }
            due = if peer == 1 { number + 1 + pause } else { due };
            time[peer] += spent;
            turns.end(turn, spent);
        }
        assert!(time[1] <= time[0] + cost, "{cost:?} each: {time:?}");
    }
}

/// The system may suspend a thread in the middle of a turn. The peer whose turn it was must not wait for ever.
#[test]
fn what_is_owed_ends() {
    let mut turns = Numbered::default();
    for peer in 0..3 {
        (0..10_000).for_each(|number| push(&mut turns, peer, at(peer), 64, number));
    }
    let turn = turns.next().unwrap();
    assert!(turns.take(turn).is_some());
    turns.end(turn, Duration::from_secs(3_600));
    let mut others = 0;
    while serve(&mut turns, SLICE).unwrap().0 != turn.handle.0 {
        others += 1;
    }
    assert!((2_000..2_100).contains(&others), "two others had {others} turns");
    // A peer that is alone waits for nobody.
    let mut turns = Numbered::default();
    (0..10).for_each(|number| push(&mut turns, 0, at(0), 64, number));
    let turn = turns.next().unwrap();
    turns.end(turn, Duration::from_secs(3_600));
    assert_eq!(serve(&mut turns, SLICE).unwrap(), (0, vec![0]));
}

/// One peer sends ten times what can be served, another sends in bursts, and a hundred send now and then.
#[test]
fn quiet_peers_wait_for_one_slice_beside_a_flood() {
    let mut dice = Dice(9);
    let (mut turns, each) = (Numbered::default(), Duration::from_micros(1));
    let mut waits = Vec::new();
    let mut asked: BTreeMap<usize, u64> = BTreeMap::new();
    let mut clock = 0u64;
    for round in 0..20_000u64 {
        (0..640).for_each(|number| push(&mut turns, 0, at(1), 1_200, round * 640 + number));
        if dice.below(50) == 0 {
            (0..500).for_each(|number| push(&mut turns, 1, at(2), 1_200, number));
        }
        let quiet = 2 + dice.below(100) as usize;
        asked.entry(quiet).or_insert_with(|| {
            push(&mut turns, quiet, at(quiet + 1), 64, 0);
            clock
        });
        let (served, items) = serve(&mut turns, each).unwrap();
        if let Some(since) = asked.remove(&served) {
            waits.push(clock - since);
        }
        clock += items.len() as u64;
    }
    assert!(waits.len() > 5_000);
    waits.sort_unstable();
    let slice = SLICE.as_micros() as u64;
    assert!(waits[waits.len() / 2] <= slice, "median {} µs", waits[waits.len() / 2]);
    assert!(waits[waits.len() - 1] <= 4 * slice, "longest {} µs", waits[waits.len() - 1]);
    assert!(turns.take_dropped() > 0);
}

#[test]
fn nobody_starves_however_many_are_fresh() {
    let (mut turns, mut served) = (Numbered::default(), 0);
    (0..4_000).for_each(|number| push(&mut turns, 0, at(1), 100, number));
    serve(&mut turns, SLICE / 4);
    for peer in 1..6_000 {
        push(&mut turns, 2 * peer, at(2), 64, 0);
        push(&mut turns, 2 * peer + 1, at(2), 64, 0);
        served += usize::from(serve(&mut turns, SLICE / 4).unwrap().0 == 0);
    }
    assert!(served > 150, "{served} turns of 6,000");
}

#[test]
fn order_is_kept_and_memory_is_bounded_whatever_arrives() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let (mut turns, mut next, mut seen) = (Numbered::default(), [0u64; 40], [0u64; 40]);
        let (mut pushed, mut taken) = (0u64, 0u64);
        for _ in 0..3_000 {
            let peer = dice.below(40) as usize;
            for _ in 0..dice.below(200) {
                next[peer] += 1;
                push(&mut turns, peer, at(peer), dice.below(9_000) as usize, next[peer]);
                pushed += 1;
            }
            assert!(turns.held <= MOST_HELD);
            if dice.below(2) == 0
                && let Some((peer, items)) = serve(&mut turns, SLICE / (1 + dice.below(30) as u32))
            {
                for number in items {
                    assert!(number > seen[peer], "out of order");
                    seen[peer] = number;
                    taken += 1;
                }
            }
        }
        while let Some((_, items)) = serve(&mut turns, SLICE / 8) {
            taken += items.len() as u64;
        }
        assert_eq!(taken + turns.take_dropped(), pushed);
        assert!(turns.is_empty() && turns.held == 0 && turns.busy == 0 && turns.connections.is_empty());
        assert!(turns.lanes.len() <= SPARE_LANES);
        assert!(turns.lanes.iter().all(|lane| lane.held == 0 && lane.queue.capacity() <= 2 * SPARE_PLACES));
    }
}

#[test]
fn whoever_is_alone_has_all_the_memory_and_others_take_it_from_the_longest() {
    let mut turns = Numbered::default();
    let fits = MOST_HELD / (1_000 + OVERHEAD);
    (0..fits as u64).for_each(|number| push(&mut turns, 0, at(1), 1_000, number));
    assert_eq!(turns.take_dropped(), 0);
    push(&mut turns, 0, at(1), 1_000, 0);
    assert_eq!(turns.take_dropped(), 1, "the flood loses its own");
    (0..100).for_each(|number| push(&mut turns, 1, at(2), 1_000, number));
    let (mut quiet, mut flood) = (Vec::new(), 0);
    while let Some((peer, items)) = serve(&mut turns, SLICE / 8) {
        if peer == 1 { quiet.extend(items) } else { flood += items.len() }
    }
    assert_eq!(quiet, (0..100).collect::<Vec<_>>(), "another loses nothing");
    assert_eq!(flood as u64, fits as u64 - turns.take_dropped());
}

/// An attacker who saw the ID of a connection sends to it from many addresses.
#[test]
fn a_victims_own_packets_do_not_wait_behind_what_others_send_to_it() {
    let mut turns = Numbered::default();
    let victim = at(1);
    for number in 0..2_000 {
        push(&mut turns, 0, at(2 + number % 500), 1_200, u64::MAX);
        if number == 1_000 {
            push(&mut turns, 0, victim, 64, 1);
        }
    }
    // The attacker's packets open the connection's lanes. The first genuine packet shows where the peer is.
    let mut turns_until_found = 0;
    'found: loop {
        let turn = turns.next().unwrap();
        turns_until_found += 1;
        for _ in 0..16 {
            let Some(from) = turns.next_from(turn) else { break };
            let (_, number) = turns.take(turn).unwrap();
            turns.judge(turn, from, number != u64::MAX);
            if number != u64::MAX {
                turns.end(turn, SLICE);
                break 'found;
            }
        }
        turns.end(turn, SLICE);
    }
    assert!(turns_until_found < 300, "{turns_until_found}");
    for number in 2..200u64 {
        for flood in 0..64 {
            push(&mut turns, 0, at(2 + flood), 1_200, u64::MAX);
        }
        push(&mut turns, 0, victim, 64, number);
        let mut got = None;
        for _ in 0..4 {
            let turn = turns.next().unwrap();
            let from = turns.next_from(turn).unwrap();
            let (_, found) = turns.take(turn).unwrap();
            turns.judge(turn, from, found != u64::MAX);
            turns.end(turn, SLICE);
            got = got.max((found != u64::MAX).then_some(found));
        }
        assert_eq!(got, Some(number), "within two turns of each lane");
    }
}
