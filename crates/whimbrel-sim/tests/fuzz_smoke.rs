//! Runs the fuzz targets without a fuzzer: on the committed corpora and seeded changes of them, for a few seconds.

use std::path::PathBuf;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_sim::checker::complaint;
use whimbrel_sim::fuzz::{FuzzTarget, TARGETS, read_suspended, restored};

fn folder(target: &FuzzTarget) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz", "corpus", target.name].iter().collect()
}

/// The corpus of a target, in the order of the names.
fn corpus(target: &FuzzTarget) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder(target))
        .unwrap_or_else(|error| panic!("no corpus of {}: {error}", target.name));
    let mut names: Vec<PathBuf> = files.map(|file| file.expect("it is listed").path()).collect();
    names.sort();
    names.iter().map(|name| std::fs::read(name).expect("it is readable")).collect()
}

/// Makes an input from another: bits changed, numbers made extreme, and parts cut out, doubled or taken from a third.
fn change(dice: &mut impl Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..dice.random_range(1..5) {
        let at = dice.random_range(0..=bytes.len());
        match dice.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.random_range(0..8),
            1 if at < bytes.len() => {
                bytes[at] = [0, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xff][dice.random_range(0..8)]
            }
            2 => bytes.truncate(at),
            3 => bytes.insert(at, dice.random_range(0..=255)),
            4 => {
                let part = bytes[at..].to_vec();
                bytes.extend_from_slice(&part);
            }
            _ => {
                bytes.truncate(at);
                bytes.extend_from_slice(&other[dice.random_range(0..=other.len())..]);
            }
        }
    }
    // Doubled parts must not add up, but what was long already stays whole.
    bytes.truncate(4096.max(input.len() + 256));
    bytes
}

/// `WHIMBREL_FUZZ=50` makes the run this many times as long.
fn times() -> u32 {
    std::env::var("WHIMBREL_FUZZ").ok().map_or(1, |text| text.parse().expect("WHIMBREL_FUZZ is a number"))
}

/// An input, and its failure.
type Found = (Vec<u8>, String);

fn run(target: &FuzzTarget, input: &[u8]) -> Option<Found> {
    complaint(|| (target.run)(input)).err().map(|why| (input.to_vec(), why))
}

/// The first input that fails.
fn smoke(target: &FuzzTarget) -> Option<Found> {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "an empty corpus of {}", target.name);
    corpus.iter().find_map(|input| run(target, input)).or_else(|| by_change(target, &corpus))
}

/// The first of many changed inputs that fails.
fn by_change(target: &FuzzTarget, corpus: &[Vec<u8>]) -> Option<Found> {
    changes(corpus).take((target.smoke * times()) as usize).find_map(|input| run(target, &input))
}

/// Changed inputs, without end.
fn changes(corpus: &[Vec<u8>]) -> impl Iterator<Item = Vec<u8>> {
    let mut dice = ChaCha8Rng::seed_from_u64(7);
    std::iter::repeat_with(move || {
        let [one, other] = [0, 1].map(|_| &corpus[dice.random_range(0..corpus.len())]);
        change(&mut dice, one, other)
    })
}

#[test]
fn no_target_complains() {
    std::thread::scope(|scope| {
        let (even, odd): (Vec<_>, Vec<_>) = TARGETS.iter().enumerate().partition(|(index, _)| index % 2 == 0);
        for half in [even, odd] {
            scope.spawn(move || {
                for (_, target) in half {
                    if let Some((input, why)) = smoke(target) {
                        panic!("{} with {input:02x?}: {why}", target.name);
                    }
                }
            });
        }
    });
}

/// Inputs that are refused at once test nothing: some of the changed ones must be read to their end.
#[test]
fn some_changed_sessions_are_accepted() {
    let accepted = |name, is_accepted: fn(&[u8]) -> bool| {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        changes(&corpus(target)).take(1_000).filter(|input| is_accepted(input)).count()
    };
    let snapshots = accepted("snapshot", |input| restored(input).is_ok());
    let suspended = accepted("suspended", |input| read_suspended(input).is_ok());
    println!("of 1,000 each: {snapshots} snapshots, {suspended} suspended sessions");
    assert!(snapshots >= 30 && suspended >= 30, "{snapshots} and {suspended} of 1,000");
}

/// Planted faults: one in a parser, and one that only operations show.
#[cfg(feature = "mutants")]
#[test]
fn planted_faults_are_found() {
    use whimbrel_proto::mutants::{Mutant, plant};
    for (name, mutant) in [("sack", Mutant::SackBelowZero), ("operations", Mutant::FragmentOffByOne)] {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        plant(Some(mutant));
        // Pretends that no input in the corpus shows the fault already.
        let mut corpus = corpus(target);
        corpus.retain(|input| run(target, input).is_none());
        assert!(!corpus.is_empty(), "{mutant:?}: nothing is left to be changed");
        let found = by_change(target, &corpus);
        plant(None);
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}

/// Writes the corpora anew from what the protocol itself writes, after a change of the format.
#[test]
#[ignore = "writes files: run it when the format changes"]
fn write_corpora() {
    for (target, name, bytes) in seeds::all() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

mod seeds {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use whimbrel_proto::wire::credit::Grant;
    use whimbrel_proto::wire::data::{self, DataHead, Extras, Length};
    use whimbrel_proto::wire::sack::{self, EcnCounts};
    use whimbrel_proto::wire::skip::{NumberRange, RangesHead};
    use whimbrel_proto::wire::stream_end::StreamEnd;
    use whimbrel_proto::wire::{VARINT_MAX, Writer, block, close};
    use whimbrel_proto::{Cause, TransportConfig};
    use whimbrel_sim::pair::{End, Pair};
    use whimbrel_sim::world::TapVerdict;

    type Seed = (&'static str, String, Vec<u8>);

    fn bytes(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut Writer::new(&mut out, 4096));
        out
    }

    fn head(flags: u8, number: u64, offset: u64, extras: Extras, message_length: Option<u64>) -> DataHead {
        DataHead { flags, stream: 0, number, offset, extras, message_length }
    }

    fn block_seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
        let whole = data::BEGIN | data::END;
        let data = |head: DataHead, payload: &[u8]| {
            bytes(|out| {
                head.write(out, Length::Bytes(payload.len()));
                out.bytes(payload);
            })
        };
        let all = Extras {
            tag: Some(7),
            priority: 200,
            ppid: Some(9),
            latest_reliable: Some(3),
            bytes: false,
            confirm: true,
            opening: false,
        };
        let byte_stream = Extras { bytes: true, ..Extras::NONE };
        let ranges = |kind, valued| {
            bytes(|out| {
                let mark = RangesHead::open(out, kind, 0, 0x08);
                let end = NumberRange { first: 3, count: 2, value: 40 }.write(out, 0, valued);
                NumberRange { first: 900, count: 70, value: 1 }.write(out, end, valued);
                RangesHead::close(out, mark, 2);
            })
        };
        let sack = |ranges: &[std::ops::RangeInclusive<u64>], ecn| {
            bytes(|out| assert!(sack::write(out, 0, 250, ranges.iter().cloned(), 1, ecn)))
        };
        let marks = EcnCounts { ect0: 10, ect1: 0, ce: 2 };
        vec![
            ("sack", "one", sack(&[0..=0], EcnCounts::default())),
            ("sack", "many", sack(&[90..=100, 50..=80, 3..=3, 0..=1], marks)),
            ("data", "whole", data(head(whole | data::RELIABLE, 5, 0, Extras::NONE, None), b"hello")),
            ("data", "everything", data(head(whole | data::UNSEQUENCED, 70_000, 0, all, None), b"hello")),
            (
                "data",
                "first",
                data(head(data::BEGIN | data::RELIABLE, 5, 0, Extras::NONE, Some(5_000)), &[7; 60]),
            ),
            ("data", "middle", data(head(data::RELIABLE, 5, 1_200, Extras::NONE, None), &[7; 60])),
            (
                "data",
                "run",
                data(head(whole | data::RELIABLE | data::MANY, 5, 0, Extras::NONE, None), b"\x02hi\x00\x01x"),
            ),
            (
                "data",
                "stream",
                data(
                    DataHead { stream: 3, ..head(whole | data::RELIABLE, 0, 0, byte_stream, None) },
                    b"bytes",
                ),
            ),
            ("skip", "two", ranges(block::SKIP, true)),
            ("taken", "two", ranges(block::TAKEN, false)),
            ("credit", "stream", bytes(|out| Grant::StreamData { stream: 2, limit: 1 << 20 }.write(out))),
            ("credit", "streams", bytes(|out| Grant::Streams(200).write(out))),
            (
                "stream_end",
                "reset",
                bytes(|out| StreamEnd::Reset { stream: 2, code: 5, final_size: 77 }.write(out)),
            ),
            ("stream_end", "stop", bytes(|out| StreamEnd::Stop { stream: 2, code: 5 }.write(out))),
            ("close", "fin", bytes(|out| assert!(close::write_fin(out, &close::Reason::new(4, "done"))))),
            (
                "close",
                "rst",
                bytes(|out| {
                    assert!(close::write_rst(out, Cause::Credit, &close::Reason::new(0, "too much")));
                }),
            ),
        ]
    }

    /// The choosing first byte of some targets, instead of the block's type.
    fn choice(target: &str, name: &str) -> Option<u8> {
        match (target, name) {
            ("credit", "stream") | ("stream_end", "reset") | ("close", "fin") => Some(0),
            ("credit", "streams") | ("stream_end", "stop") | ("close", "rst") => Some(1),
            _ => None,
        }
    }

    /// A packet for the target `blocks`.
    fn packet(block: &[u8]) -> Vec<u8> {
        let mut packet = vec![block.len().div_ceil(4) as u8];
        packet.extend_from_slice(block);
        packet.resize(1 + block.len().div_ceil(4) * 4, block::PADDING);
        packet
    }

    /// Every block, as in the specification's vectors.
    fn vectors() -> Vec<(String, Vec<u8>)> {
        const FILE: &str = include_str!("../../../docs/vectors/blocks.txt");
        let lines = FILE.lines().filter(|line| !line.starts_with([' ', '#']));
        let bytes = |hex: &str| {
            let digits = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
            digits.collect::<Result<Vec<u8>, _>>().expect("hexadecimal")
        };
        lines
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, hex)| (name.to_owned(), bytes(hex)))
            .collect()
    }

    pub(super) fn all() -> Vec<Seed> {
        let mut seeds: Vec<Seed> = Vec::new();
        for (target, name, block) in block_seeds() {
            let body = choice(target, name).into_iter().chain(block[1..].iter().copied()).collect();
            seeds.push((target, name.into(), body));
            seeds.push(("blocks", format!("{target}_{name}"), packet(&block)));
        }
        seeds.extend(
            vectors().into_iter().map(|(name, block)| ("blocks", format!("vector_{name}"), packet(&block))),
        );
        seeds.push((
            "params",
            "client".into(),
            b"\x00\x01\x02\x01\x02\x04\x04\x80\x80\x00\x00\x0a\x04\x80\x00\xea\x60\x00".to_vec(),
        ));
        seeds.push(("params", "server".into(), b"\x01\x01\x01\x01\x08\x02\x45\xc0\x00".to_vec()));
        seeds.extend(
            snapshots().into_iter().enumerate().map(|(at, bytes)| ("snapshot", format!("{at}"), bytes)),
        );
        seeds.extend(
            suspended().into_iter().enumerate().map(|(at, bytes)| ("suspended", format!("{at}"), bytes)),
        );
        for (target, state) in ["snapshot", "suspended"].into_iter().zip(of_one_tag()) {
            seeds.push((target, "counter_overflows".into(), counting_often(&state)));
            seeds.push((target, "one_tag".into(), state));
        }
        seeds.push(("tickets", "two".into(), tickets()));
        seeds.extend(urls().map(|(name, url)| ("url", name.to_owned(), url.into())));
        for (index, packet) in handshake().into_iter().enumerate() {
            let to = if index % 2 == 0 { 0 } else { 1 };
            let mut input = vec![to | (index as u8 * 2) << 4];
            input.extend_from_slice(&packet);
            seeds.push(("clear", format!("{index}"), input));
        }
        seeds.push(("sealed", "short".into(), vec![0; 21]));
        seeds.push(("sealed", "long".into(), [&[1][..], &[0x5a; 300]].concat()));
        for seed in 0..6 {
            let mut operations = vec![0; 400 + 200 * seed as usize];
            ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut operations);
            seeds.push(("operations", format!("{seed}"), operations));
        }
        seeds
    }

    /// Sessions in the middle of traffic.
    fn snapshots() -> Vec<Vec<u8>> {
        use whimbrel_proto::session::{Outgoing, StreamKind};
        use whimbrel_proto::{Service, StreamId, Tag};

        let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms, rate=1mbit, loss=10%");
        let now = pair.now();
        let stream = pair.session(End::Client).open_stream(StreamKind::Bytes).expect("streams are allowed");
        pair.session(End::Client).write(now, stream, vec![7; 3000].into()).expect("it is open");
        for number in 0..24u8 {
            let service = Service::ALL[usize::from(number % 4)];
            let length = if number % 7 == 0 { 2000 } else { 12 };
            let message = Outgoing::new(StreamId(0), service, vec![number; length].into());
            let message = Outgoing { tag: (number % 3 == 0).then_some(Tag(1)), tracked: true, ..message };
            pair.try_send(End::Client, message).expect("there is room");
        }
        pair.run(std::time::Duration::from_millis(60));
        let now = pair.now();
        End::BOTH.map(|end| pair.session(end).snapshot(now)).into()
    }

    /// The states that two suspended ends leave, without their checksums.
    fn suspended() -> Vec<Vec<u8>> {
        use whimbrel_proto::SuspendMode;

        let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms");
        let client = pair.place(End::Client).expect("it is there");
        let now = pair.now();
        pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
        pair.run(std::time::Duration::from_secs(1));
        let left = pair.world.take_suspended(client.0, client.1).expect("the state is there").to_bytes();
        vec![left[..left.len() - 32].to_vec()]
    }

    /// Not found elsewhere in the states below.
    const TAG: u64 = 0x1bad_cafe;

    /// A list of counts of the tag, as in the states below.
    fn counts(times: u64, messages: u64, length: u64) -> Vec<u8> {
        bytes(|out| {
            out.varint(times);
            (0..times)
                .for_each(|_| [0, TAG, messages, length].into_iter().for_each(|value| out.varint(value)));
        })
    }

    /// A snapshot and a suspended session that have received one message of one tag.
    fn of_one_tag() -> [Vec<u8>; 2] {
        use whimbrel_proto::session::Outgoing;
        use whimbrel_proto::{Service, StreamId, SuspendMode, Tag};

        let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms");
        let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, "five!".into());
        pair.try_send(End::Server, Outgoing { tag: Some(Tag(TAG)), ..message }).expect("there is room");
        pair.run(std::time::Duration::from_secs(1));
        assert_eq!(pair.recv(End::Client).len(), 1);
        let now = pair.now();
        let snapshot = pair.session(End::Client).snapshot(now);
        let client = pair.place(End::Client).expect("it is there");
        pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
        pair.run(std::time::Duration::from_secs(1));
        let left = pair.world.take_suspended(client.0, client.1).expect("the state is there").to_bytes();
        [snapshot, left[..left.len() - 32].to_vec()]
    }

    /// The same with 2^62 - 1 messages of the tag, listed five times: more than 64 bits hold if they are added up.
    fn counting_often(state: &[u8]) -> Vec<u8> {
        let once = counts(1, 1, 5);
        let mut found = (0..state.len()).filter(|at| state[*at..].starts_with(&once));
        let at = found.next().expect("the tag is counted");
        assert_eq!(found.next(), None, "it is not unique");
        [&state[..at], &counts(5, VARINT_MAX, VARINT_MAX), &state[at + once.len()..]].concat()
    }

    /// An export of two tickets, one with a path memory.
    fn tickets() -> Vec<u8> {
        use whimbrel_proto::crypto::{PathMemory, PublicKey};
        use whimbrel_proto::{Ticket, TicketStore, Time};

        let (now, wall) = (Time::ZERO, std::time::Duration::from_secs(1_700_000_000));
        let mut store = TicketStore::default();
        let rtt = std::time::Duration::from_millis(50);
        for (key, memory) in [(9, None), (10, Some(PathMemory { rate: 500_000, rtt }))] {
            let server_key = PublicKey::new([key; 32]).expect("a key");
            let until = now + std::time::Duration::from_secs(86_400);
            store.insert(Ticket { server_key, bytes: vec![key; 80].into(), until, memory });
        }
        store.export(now, wall)
    }

    /// URLs with a key and without, with a name and with an address.
    fn urls() -> [(&'static str, String); 3] {
        use whimbrel_proto::Url;
        use whimbrel_proto::crypto::PublicKey;

        let key = PublicKey::new([9; 32]).expect("a key");
        let url = |key, host: &str| Url { key, host: host.to_owned(), port: 4433 }.to_string();
        [
            ("name", url(Some(key), "example.org")),
            ("ipv6", url(Some(key), "2001:db8::1")),
            ("without_key", url(None, "192.0.2.1")),
        ]
    }

    /// The SYN, SYN-ACK, PING and PONG of one handshake.
    fn handshake() -> Vec<Vec<u8>> {
        let packets = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let seen = packets.clone();
        let mut pair = Pair::new(1, TransportConfig::default(), "delay=10ms");
        pair.world.set_tap(Box::new(move |_, _, _, bytes| {
            if bytes[0] & 0x80 != 0 {
                seen.borrow_mut().push(bytes.clone());
            }
            TapVerdict::Pass
        }));
        assert!(pair.settle(std::time::Duration::from_secs(1)));
        packets.take()
    }
}
