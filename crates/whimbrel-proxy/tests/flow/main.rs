//! The core of flows, over ends that a seed decides: small buffers, stalls, and every order of data, FIN and RST. Once with
//! streams in memory, once over the simulated transport.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod half;
mod pipes;
mod talker;
mod wire;
mod world;

use std::task::{Context, Poll, Waker};

use pipes::{End, connected};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use talker::Talker;
use whimbrel_proxy::flow::compressed::Compressed;
use whimbrel_proxy::flow::{Channel, Ended, Flow};

/// The counts of a run.
#[derive(Debug, Default)]
struct Tally {
    clean: u32,
    resets: u32,
    given_up: u32,
}

/// Runs a flow whose stream `wrap` puts something around, at both ends.
fn run<C: Channel>(seed: u64, tally: &mut Tally, wrap: impl Fn(End) -> C) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut room = || [1, 50, 1_000, 30_000][rng.random_range(0..4)];
    let ((program, near_program), (server, far_program)) = (connected(room()), connected(room()));
    let (near_channel, far_channel) = connected(room());
    let mut near = Flow::new(near_program, wrap(near_channel));
    let mut far = Flow::new(far_program, wrap(far_channel));
    let (mut program, mut server) = (Talker::new(program, &mut rng), Talker::new(server, &mut rng));
    if seed.is_multiple_of(2) {
        [&mut program, &mut server].into_iter().for_each(Talker::write_records);
    }
    let reset_at = rng.random_ratio(1, 4).then(|| rng.random_range(0..60));
    let give_up_at = rng.random_ratio(1, 8).then(|| rng.random_range(0..60));
    let mut cx = Context::from_waker(Waker::noop());
    let mut ended = [None, None];
    for step in 0..2_000_000_u32 {
        if reset_at == Some(step) {
            let who = if rng.random() { &mut program } else { &mut server };
            who.end.abort(0);
            who.was_reset = true;
        }
        if give_up_at == Some(step) && ended[0].is_none() {
            ended[0] = Some(near.give_up(7));
        }
        match rng.random_range(0..4) {
            0 => program.act(&mut rng),
            1 => server.act(&mut rng),
            2 => ended[0] = ended[0].or(ready(near.poll(&mut cx))),
            _ => ended[1] = ended[1].or(ready(far.poll(&mut cx))),
        }
        // Whatever happens, nothing is read that was not written, or in another order.
        assert!(server.read.len() <= program.written && program.read.len() <= server.written, "seed {seed}");
        if program.is_done() && server.is_done() && ended.iter().all(Option::is_some) {
            break;
        }
    }
    assert!(
        program.wants.starts_with(&server.read) && server.wants.starts_with(&program.read),
        "seed {seed}"
    );
    let disturbed = reset_at.is_some() || give_up_at.is_some();
    match ended {
        [Some(Ended::Finished), Some(Ended::Finished)] => {
            assert_eq!(server.read.len(), program.wants.len(), "seed {seed}");
            assert_eq!(program.read.len(), server.wants.len(), "seed {seed}");
            assert_eq!(near.bytes(), (program.wants.len() as u64, server.wants.len() as u64), "seed {seed}");
            tally.clean += 1;
        }
        [Some(one), Some(other)] => {
            assert!(disturbed, "seed {seed}: {one:?}, {other:?}");
            // One end's reset is the other's, unless that had ended.
            assert!(program.is_done() && server.is_done(), "seed {seed}: {one:?}, {other:?}");
            tally.resets += u32::from(give_up_at.is_none());
            tally.given_up += u32::from(one == Ended::GivenUp(7));
        }
        _ => panic!("seed {seed}: it does not end: {ended:?}"),
    }
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn every_order_of_data_fin_and_rst_ends_well() {
    let mut tally = Tally::default();
    for seed in 0..2_000 {
        run(seed, &mut tally, |channel| channel);
    }
    println!("seeds 0 to 1999: {tally:?}");
    assert!(tally.clean > 1_000 && tally.resets > 100 && tally.given_up > 50, "{tally:?}");
}

#[test]
fn every_order_ends_well_when_streams_are_compressed() {
    for method in ["zstd:3", "zlib:1", "xz:1"] {
        let (mut tally, method) = (Tally::default(), method.parse().unwrap());
        for seed in 0..200 {
            run(seed, &mut tally, |channel| Compressed::new(channel, method, None, 0, None));
        }
        println!("{method}, seeds 0 to 199: {tally:?}");
        assert!(tally.clean > 100 && tally.resets > 10 && tally.given_up > 4, "{tally:?}");
    }
}
