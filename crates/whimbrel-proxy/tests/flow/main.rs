//! The core of flows, over ends that a seed decides: small buffers, stalls, and every order of data, FIN and RST. Once with
//! streams in memory, once over the simulated transport.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod half;
mod pipes;
mod talker;
mod wire;
mod world;

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use pipes::{End, connected};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use talker::Talker;
use whimbrel_proxy::flow::compressed::Compressed;
use whimbrel_proxy::flow::{Broken, Channel, Ended, Flow};

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

/// A stream that small writes wait in front of, for as many polls as the seed of its end says.
struct Gathering {
    end: End,
    waits: u32,
    polls: u32,
}

impl Channel for Gathering {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        Channel::poll_read(&mut self.end, cx, bytes)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        Channel::poll_write(&mut self.end, cx, bytes)
    }

    fn gathers(&self) -> usize {
        500
    }

    fn poll_gathered(&mut self, _: &mut Context<'_>) -> Poll<()> {
        self.polls += 1;
        if self.polls.is_multiple_of(self.waits) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        self.end.poll_stopped(cx)
    }

    fn finish(&mut self) {
        Channel::finish(&mut self.end);
    }

    fn reset(&mut self, code: u64) {
        Channel::reset(&mut self.end, code);
    }
}

#[test]
fn every_order_ends_well_when_small_writes_wait_for_others() {
    let mut tally = Tally::default();
    for seed in 0..1_000 {
        run(seed, &mut tally, |end| Gathering { end, waits: 1 + seed as u32 % 9, polls: 0 });
    }
    println!("seeds 0 to 999: {tally:?}");
    assert!(tally.clean > 500 && tally.resets > 50 && tally.given_up > 25, "{tally:?}");
}

#[test]
fn small_writes_wait_for_others_and_are_not_lost_when_the_flow_is_taken_apart() {
    let ((mut program, near), (channel, mut peer)) = (connected(30_000), connected(30_000));
    let mut flow = Flow::new(near, Gathering { end: channel, waits: 3, polls: 0 });
    let mut cx = Context::from_waker(Waker::noop());
    let mut read = || ready(Channel::poll_read(&mut peer, &mut cx, &mut Vec::new()));
    let mut cx = Context::from_waker(Waker::noop());
    let mut write = |text: &'static [u8]| {
        let written = Channel::poll_write(&mut program, &mut cx, &mut Bytes::from_static(text));
        assert_eq!(written, Poll::Ready(Ok(())));
    };
    let mut cx = Context::from_waker(Waker::noop());
    write(b"one ");
    assert!(flow.poll(&mut cx).is_pending() && read().is_none());
    write(b"two");
    assert!(flow.poll(&mut cx).is_pending() && read().is_none());
    assert!(flow.poll(&mut cx).is_pending(), "the wait is over");
    assert_eq!(flow.bytes().0, 7);
    assert!(read().is_some());
    write(b"three");
    assert!(flow.poll(&mut cx).is_pending() && read().is_none());
    assert_eq!(flow.into_parts().2.out, &b"three"[..]);
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
