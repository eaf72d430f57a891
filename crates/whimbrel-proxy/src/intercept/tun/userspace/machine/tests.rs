use etherparse::PacketBuilder;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::*;

const TARGET: &str = "10.9.0.1:443";
const PROGRAM: &str = "10.1.0.2:40000";
/// Longer than any transfer takes, loss or not.
const LONG: Duration = Duration::from_secs(3_600);

/// A program and the machine that answers it, over a link that loses some packets.
struct Pair {
    ends: [Machine; 2],
    now: Duration,
    random: ChaCha8Rng,
    loss: f64,
}

impl Pair {
    fn new(target: &str, program: &str, seed: u64, loss: f64) -> Self {
        let (target, program): (SocketAddr, SocketAddr) = (target.parse().unwrap(), program.parse().unwrap());
        let mut client = Machine::new(program).unwrap();
        let socket = client.sockets.get_mut::<Socket<'_>>(client.socket);
        socket.connect(client.interface.context(), target, program).unwrap();
        let ends = [client, Machine::listen(target).unwrap()];
        Self { ends, now: Duration::ZERO, random: ChaCha8Rng::seed_from_u64(seed), loss }
    }

    /// Lets packets pass until there are none, and then time until something is due.
    fn step(&mut self) {
        loop {
            let mut passed = false;
            for from in [0, 1] {
                self.ends[from].advance(self.now);
                while let Some(packet) = self.ends[from].poll_packet() {
                    passed = true;
                    if !self.random.random_bool(self.loss) {
                        self.ends[1 - from].on_packet(packet);
                        self.ends[1 - from].advance(self.now);
                    }
                }
            }
            if !passed {
                break;
            }
        }
        let due = self.ends.iter_mut().filter_map(|end| end.due(self.now)).min();
        self.now = due.unwrap_or(self.now).max(self.now + Duration::from_millis(1));
        assert!(self.now < LONG, "it does not go on: {:?}", self.ends);
    }
}

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed).collect()
}

#[test]
fn everything_arrives_in_both_directions() {
    for seed in 0..20 {
        println!("seed {seed}");
        let (target, program) =
            if seed % 2 == 0 { (TARGET, PROGRAM) } else { ("[fd09::1]:443", "[fd01::2]:4000") };
        let mut pair = Pair::new(target, program, seed, 0.0);
        let all = [bytes(400_000, 1), bytes(300_000, 2)];
        let (mut written, mut read, mut ended) = ([0, 0], [Vec::new(), Vec::new()], [false, false]);
        while ended != [true, true] {
            pair.step();
            for end in [0, 1] {
                let machine = &mut pair.ends[end];
                if machine.is_established() && written[end] < all[end].len() {
                    written[end] += machine.write(&all[end][written[end]..]).unwrap_or(0);
                    if written[end] == all[end].len() {
                        machine.finish();
                    }
                }
                loop {
                    match machine.read() {
                        Read::Bytes(some) => read[end].extend_from_slice(&some),
                        Read::End => {
                            ended[end] = true;
                            break;
                        }
                        Read::Nothing | Read::Reset => break,
                    }
                }
            }
        }
        assert!(read[0] == all[1] && read[1] == all[0], "what was read differs");
        while !pair.ends.iter().all(Machine::is_closed) {
            pair.step();
        }
        assert!(!pair.ends[1].was_reset(), "it was a regular end");
    }
}

#[test]
fn a_direction_that_has_ended_leaves_the_other_open() {
    let mut pair = Pair::new(TARGET, PROGRAM, 1, 0.0);
    pair.step();
    assert!(pair.ends[1].is_established());
    pair.ends[1].finish();
    pair.step();
    assert_eq!(pair.ends[0].read(), Read::End);
    assert_eq!(pair.ends[0].write(b"still here"), Some(10));
    pair.step();
    assert_eq!(pair.ends[1].read(), Read::Bytes(Bytes::from_static(b"still here")));
    assert_eq!(pair.ends[1].read(), Read::Nothing);
    assert_eq!(pair.ends[1].write(b"x"), None, "it was finished");
}

#[test]
fn a_reset_is_told_to_whoever_did_not_ask_for_it() {
    for resets in [0, 1] {
        let mut pair = Pair::new(TARGET, PROGRAM, 1, 0.0);
        pair.step();
        pair.ends[resets].abort();
        pair.step();
        assert!(pair.ends.iter().all(Machine::is_closed));
        assert!(pair.ends[1 - resets].was_reset() && !pair.ends[resets].was_reset());
        assert_eq!(pair.ends[1 - resets].read(), Read::Reset);
        assert_eq!(pair.ends[1 - resets].write(b"x"), None);
    }
}

#[test]
fn regression_an_idle_connection_stays() {
    let mut pair = Pair::new(TARGET, PROGRAM, 1, 0.0);
    pair.step();
    assert_eq!(pair.ends[1].write(b"x"), Some(1));
    pair.step();
    pair.now += LONG / 2;
    pair.step();
    assert_eq!(pair.ends[0].read(), Read::Bytes(Bytes::from_static(b"x")));
    assert_eq!(pair.ends[0].write(b"still here"), Some(10));
    pair.step();
    assert_eq!(pair.ends[1].read(), Read::Bytes(Bytes::from_static(b"still here")));
}

#[test]
fn regression_what_is_read_late_is_still_there() {
    for first in [0, 1] {
        let mut pair = Pair::new(TARGET, PROGRAM, 1, 0.0);
        pair.step();
        for end in [first, 1 - first] {
            assert_eq!(pair.ends[end].write(b"the last words"), Some(14));
            pair.ends[end].finish();
            pair.step();
        }
        while !pair.ends.iter().all(Machine::is_closed) {
            pair.step();
        }
        for end in &mut pair.ends {
            assert_eq!(end.read(), Read::Bytes(Bytes::from_static(b"the last words")));
            assert_eq!(end.read(), Read::End);
        }
    }
}

#[test]
fn a_program_that_is_gone_is_given_up() {
    let mut pair = Pair::new(TARGET, PROGRAM, 1, 0.0);
    pair.step();
    pair.loss = 1.0;
    assert_eq!(pair.ends[1].write(b"x"), Some(1));
    while !pair.ends[1].is_closed() {
        pair.step();
    }
    assert!(pair.ends[1].was_reset());
}

#[test]
fn a_reader_that_stalls_stops_the_writer() {
    let mut pair = Pair::new(TARGET, PROGRAM, 1, 0.0);
    pair.step();
    let mut taken = 0;
    // For many minutes.
    for _ in 0..60 {
        taken += pair.ends[0].write(&[7; BUFFER]).unwrap();
        pair.step();
    }
    assert!(taken <= 2 * BUFFER, "{taken} bytes wait");
    assert!(pair.now > 2 * UNACKNOWLEDGED, "a program that stalls is not given up: {:?}", pair.now);
    // It reads again, and everything is there.
    let mut read = 0;
    while read < taken {
        match pair.ends[1].read() {
            Read::Bytes(bytes) => read += bytes.len(),
            Read::Nothing => pair.step(),
            other => panic!("{other:?} after {read} bytes"),
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_packets_are_no_reason_to_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        flags in proptest::collection::vec((any::<[bool; 6]>(), any::<u32>(), any::<u32>(), any::<u16>(), 0..2_000usize), 1..20),
    ) {
        let mut machine = Machine::listen(TARGET.parse().unwrap()).unwrap();
        machine.on_packet(bytes);
        machine.advance(Duration::ZERO);
        for (number, ([syn, ack, fin, rst, psh, urg], sequence, acknowledged, window, length)) in
            flags.into_iter().enumerate()
        {
            let mut tcp = PacketBuilder::ipv4([10, 1, 0, 2], [10, 9, 0, 1], 64).tcp(4_000, 443, sequence, window);
            if syn { tcp = tcp.syn(); }
            if ack { tcp = tcp.ack(acknowledged); }
            if fin { tcp = tcp.fin(); }
            if rst { tcp = tcp.rst(); }
            if psh { tcp = tcp.psh(); }
            if urg { tcp = tcp.urg(1); }
            let mut packet = Vec::new();
            tcp.write(&mut packet, &vec![0; length]).unwrap();
            machine.on_packet(packet);
            let now = Duration::from_millis(number as u64);
            machine.advance(now);
            machine.due(now);
            while machine.poll_packet().is_some() {}
            machine.read();
        }
    }
}
