//! Compressed streams and datagrams: round trips, figures, hostile bytes, and memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::prelude::*;
use whimbrel_proxy::compress::{DatagramCodec, Decoder, Dictionary, Method, train};
use whimbrel_proxy::flow::compressed::{Compressed, Paused};
use whimbrel_proxy::flow::{Broken, Channel, Flow, Program};

const METHODS: [&str; 6] = ["zstd:1", "zstd:9", "zlib:1", "zlib:9", "xz:1", "xz:6"];

fn method(text: &str) -> Method {
    text.parse().unwrap()
}

/// A record like those of Cursor on Target. Numbers differ from record to record.
fn record(at: u64) -> Vec<u8> {
    let noise =
        |salt: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(salt as u32 * 7) % 1_000_000;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><event version=\"2.0\" uid=\"ANDROID-{:06}\" type=\"a-f-G-U-C\" how=\"m-g\" \
         time=\"2026-11-24T02:{:02}:{:02}.{:03}Z\" start=\"2026-11-24T02:{:02}:{:02}.{:03}Z\" stale=\"2026-11-24T03:{:02}:00.000Z\">\
         <point lat=\"47.{:06}\" lon=\"8.{:06}\" hae=\"{}.{}\" ce=\"9.9\" le=\"9999999.0\"/><detail><contact callsign=\"TEAM-{}\" \
         endpoint=\"*:-1:stcp\"/><__group name=\"Cyan\" role=\"Team Member\"/><status battery=\"{}\"/><takv device=\"SM-G991\" \
         platform=\"ATAK\" os=\"31\" version=\"4.8\"/><track speed=\"{}.{}\" course=\"{}.{}\"/></detail></event>",
        at % 40, at % 60, noise(1) % 60, noise(2) % 1_000, at % 60, noise(1) % 60, noise(2) % 1_000, at % 60,
        noise(3), noise(4), noise(5) % 900, noise(6) % 10, at % 40, noise(7) % 100, noise(8) % 30, noise(1) % 100,
        noise(2) % 360, noise(3) % 10,
    )
    .into_bytes()
}

fn dictionary() -> Dictionary {
    let examples: Vec<_> = (1_000_000..1_000_500).map(record).collect();
    Dictionary::new(&train(&examples, 16 * 1024).unwrap()).unwrap()
}

/// A stream in memory: what was written and not yet read.
#[derive(Clone, Debug, Default)]
struct Wire {
    bytes: Rc<RefCell<VecDeque<u8>>>,
    /// The most that is read or written at once.
    step: usize,
    finished: Rc<RefCell<bool>>,
}

impl Channel for Wire {
    fn poll_read(&mut self, _: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        let mut wire = self.bytes.borrow_mut();
        let length = self.step.min(wire.len());
        if length == 0 {
            return if *self.finished.borrow() { Poll::Ready(Ok(false)) } else { Poll::Pending };
        }
        bytes.push(wire.drain(..length).collect::<Vec<_>>().into());
        Poll::Ready(Ok(true))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        let taken = bytes.split_to(self.step.min(bytes.len()));
        self.bytes.borrow_mut().extend(taken);
        Poll::Ready(Ok(()))
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<Broken> {
        Poll::Pending
    }

    fn finish(&mut self) {
        *self.finished.borrow_mut() = true;
    }

    fn reset(&mut self, _: u64) {}
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn ends(method: Method, dictionary: Option<Dictionary>, step: usize) -> [Compressed<Wire>; 2] {
    let wire = Wire { step, ..Wire::default() };
    [wire.clone(), wire].map(|end| Compressed::new(end, method, dictionary.clone(), 0, None))
}

fn write(end: &mut Compressed<Wire>, bytes: &[u8]) {
    let mut bytes = Bytes::copy_from_slice(bytes);
    while !bytes.is_empty() {
        assert_eq!(end.poll_write(&mut cx(), &mut bytes), Poll::Ready(Ok(())));
    }
}

/// Reads what is there.
fn read(end: &mut Compressed<Wire>) -> Result<Vec<u8>, Broken> {
    let mut all = Vec::new();
    loop {
        let mut bytes = Vec::new();
        match end.poll_read(&mut cx(), &mut bytes) {
            Poll::Ready(Ok(true)) => {
                let length: usize = bytes.iter().map(Bytes::len).sum();
                assert!(length <= 64 * 1024, "{length} bytes at once");
                all.extend(bytes.concat());
            }
            Poll::Ready(Ok(false)) => return Ok(all),
            // It asks for another turn, or nothing is there.
            Poll::Pending if end_is_empty(end) => return Ok(all),
            Poll::Pending => {}
            Poll::Ready(Err(broken)) => return Err(broken),
        }
    }
}

fn end_is_empty(end: &mut Compressed<Wire>) -> bool {
    end.inner().bytes.borrow().is_empty()
}

/// The writes of a program: records, noise, or the same byte again and again.
fn writes() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let one = prop_oneof![
        (0..1_000_u64).prop_map(record),
        prop::collection::vec(any::<u8>(), 1..3_000),
        (any::<u8>(), 1..200_000_usize).prop_map(|(byte, length)| vec![byte; length]),
        (1..100_000_usize, any::<u64>()).prop_map(|(length, seed)| noise(length, seed)),
    ];
    prop::collection::vec(one, 1..12)
}

/// Bytes that do not shrink.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    use rand::{Rng, SeedableRng};

    let mut bytes = vec![0; length];
    rand_chacha::ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_write_comes_back_at_once(at in 0..METHODS.len(), step in 1..5_000_usize, writes in writes()) {
        let method = method(METHODS[at]);
        let dictionary = (method.takes_dictionary() && step % 2 == 0).then(dictionary);
        let [mut one, mut other] = ends(method, dictionary, step.max(100));
        for written in &writes {
            write(&mut one, written);
            let came = read(&mut other).unwrap();
            prop_assert!(came == *written, "{method}: {} of {} bytes", came.len(), written.len());
        }
        one.finish();
        prop_assert_eq!(read(&mut other), Ok(Vec::new()));
    }

    #[test]
    fn any_bytes_of_a_peer_do_no_harm(at in 0..METHODS.len(), bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let [one, mut other] = ends(method(METHODS[at]), None, 700);
        drop(one);
        // The first piece is compressed, so that the decoder has something to refuse.
        let length = bytes.len().clamp(1, 1_000) * 4 + 2;
        other_bytes(&mut other, &[&((length as u16) | 0x4000).to_be_bytes()[..], &bytes].concat());
        drop(read(&mut other));
    }

    #[test]
    fn what_is_paused_at_any_moment_goes_on_elsewhere(
        at in 0..METHODS.len(), step in 100..5_000_usize, before in writes(), after in writes(), reads in 0..20_usize,
        is_early in any::<bool>()
    ) {
        let method = method(METHODS[at]);
        let dictionary = (method.takes_dictionary() && step % 2 == 0).then(dictionary);
        let [mut one, mut other] = ends(method, dictionary.clone(), step);
        let mut came = Vec::new();
        for written in &before {
            write(&mut one, written);
        }
        for _ in 0..reads {
            let mut bytes = Vec::new();
            let polled = other.poll_read(&mut cx(), &mut bytes);
            prop_assert!(!matches!(polled, Poll::Ready(Err(_))));
            came.extend(bytes.concat());
        }
        other.settle();
        if is_early && let Some(first) = after.first() {
            write(&mut one, first);
        }
        one.restart().ask();
        one.poll_upkeep(&mut cx());
        for written in &after[usize::from(is_early)..] {
            write(&mut one, written);
        }
        while !other.is_settled() {
            let mut bytes = Vec::new();
            let polled = other.poll_read(&mut cx(), &mut bytes);
            prop_assert!(polled.is_ready() || !end_is_empty(&mut other) || other.is_settled(), "{method}: it waits");
            came.extend(bytes.concat());
        }
        let (paused, taken) = other.pause().unwrap();
        prop_assert_eq!(taken, 0);
        let note = serde_json::to_string(&paused).unwrap();
        let mut again: Paused = serde_json::from_str(&note).unwrap();
        (again.input, again.pieces) = (paused.input, paused.pieces);
        let mut other = Compressed::resume(other.inner().clone(), again, dictionary, None);
        came.extend(read(&mut other).unwrap());
        prop_assert!(came == [before.concat(), after.concat()].concat(), "{method}");
        one.finish();
        prop_assert_eq!(read(&mut other), Ok(Vec::new()));
    }

    #[test]
    fn a_byte_that_is_changed_disturbs_nobody(at in 0..METHODS.len(), place in any::<prop::sample::Index>(), with in 1..=255_u8) {
        let [mut one, mut other] = ends(method(METHODS[at]), None, 700);
        (0..5).for_each(|at| write(&mut one, &record(at)));
        change(&mut other, |wire| {
            let place = place.index(wire.len());
            wire[place] ^= with;
        });
        one.finish();
        drop(read(&mut other));
    }
}

fn other_bytes(end: &mut Compressed<Wire>, bytes: &[u8]) {
    change(end, |wire| wire.extend(bytes));
}

fn change(end: &mut Compressed<Wire>, change: impl FnOnce(&mut VecDeque<u8>)) {
    change(&mut end.inner().bytes.borrow_mut());
}

#[test]
fn small_records_shrink_as_they_go() {
    for (text, dictionary, most) in
        [("zlib:1", None, 25), ("xz:1", None, 20), ("zstd:3", None, 25), ("zstd:3", Some(dictionary()), 20)]
    {
        let has_dictionary = dictionary.is_some();
        let [mut one, mut other] = ends(method(text), dictionary, 1_000_000);
        let (mut plain, mut first) = (0, 0);
        for at in 0..400 {
            write(&mut one, &record(at));
            assert_eq!(read(&mut other).unwrap(), record(at));
            plain += record(at).len() as u64;
            if at == 0 {
                first = one.link().both().0 * 100 / plain;
            }
        }
        let share = one.link().both().0 * 100 / plain;
        println!("{text}, dictionary {has_dictionary}: {share} %, the first {first} %");
        assert!(share <= most, "{text}: {share} %");
        assert!(!has_dictionary || first <= 30, "the first record: {first} %");
    }
}

#[test]
fn datagrams_shrink_by_a_dictionary_and_come_back() {
    for (text, dictionary, most) in
        [("zlib:1", None, 90), ("xz:1", None, 95), ("zstd:3", None, 90), ("zstd:3", Some(dictionary()), 25)]
    {
        let mut one = DatagramCodec::new(method(text), dictionary.as_ref()).unwrap();
        let mut other = DatagramCodec::new(method(text), dictionary.as_ref()).unwrap();
        let (mut plain, mut packed) = (0, 0);
        for at in (0..300).rev() {
            let datagram = one.pack(&record(at)).unwrap();
            (plain, packed) = (plain + record(at).len(), packed + datagram.len());
            // Each by itself: some are lost.
            if at % 3 > 0 {
                assert_eq!(&other.unpack(&datagram, 65_507).unwrap()[..], record(at));
            }
        }
        println!("{text}, dictionary {}: {} %", dictionary.is_some(), packed * 100 / plain);
        assert!(packed * 100 / plain <= most, "{text}: {packed} of {plain}");
        assert_eq!(one.pack(&noise(1_000, 1)), None, "what does not shrink stays as it is");
        let bomb = one.pack(&vec![0; 65_507]).unwrap();
        assert_eq!(other.unpack(&bomb, 65_507).unwrap().len(), 65_507);
        assert!(other.unpack(&bomb, 65_506).is_err(), "{text}: no more than there may be");
        for cut in 0..bomb.len() {
            drop(other.unpack(&bomb[..cut], 65_507));
        }
        let datagram = one.pack(&record(7)).unwrap();
        assert_eq!(&other.unpack(&datagram, 65_507).unwrap()[..], record(7), "after malformed ones, too");
    }
}

#[test]
fn what_does_not_shrink_costs_next_to_nothing() {
    for (text, first) in [("zstd:3", &b""[..]), ("zlib:1", b""), ("xz:1", b""), ("zstd:3", b"\x16\x03\x01")] {
        let [mut one, mut other] = ends(method(text), None, 1_000_000);
        let mut sent = first.to_vec();
        sent.extend(noise(8 << 20, 3));
        for part in sent.chunks(64 * 1024) {
            write(&mut one, part);
            assert!(read(&mut other).unwrap() == part);
        }
        let more = one.link().both().0 - sent.len() as u64;
        assert!(more < sent.len() as u64 / 200, "{text}: {more} bytes more");
        // Text that follows shrinks, unless the flow is sealed.
        let before = one.link().both().0;
        for at in 0..8_000 {
            write(&mut one, &record(at));
            assert_eq!(read(&mut other).unwrap(), record(at));
        }
        let (plain, link) = (8_000 * record(0).len() as u64, one.link().both().0 - before);
        assert!(if first.is_empty() { link < plain / 2 } else { link >= plain }, "{text}: {link} of {plain}");
    }
}

#[test]
fn a_bomb_comes_out_in_parts() {
    for text in METHODS {
        let [mut one, mut other] = ends(method(text), None, 1_000_000);
        let zeros = vec![0; 64 << 20];
        write(&mut one, &zeros);
        assert!(one.link().both().0 < 1_000_000, "{text}: {}", one.link().both().0);
        let (mut length, mut bytes) = (0, Vec::new());
        // `read` asserts how much comes at once; here nothing else is held than a part.
        while length < zeros.len() {
            if other.poll_read(&mut cx(), &mut bytes).is_ready() {
                let came: usize = bytes.drain(..).map(|bytes: Bytes| bytes.len()).sum();
                assert!(came <= 64 * 1024, "{text}: {came}");
                length += came;
            }
        }
        assert_eq!(length, zeros.len());
    }
}

#[test]
fn small_pieces_come_out_a_few_at_a_time() {
    let [_one, mut other] = ends(method("zlib:1"), None, 1_000_000);
    // A byte in each piece.
    change(&mut other, |wire| wire.extend([4, b'x'].repeat(10_000)));
    let mut length = 0;
    while length < 10_000 {
        let mut bytes = Vec::new();
        assert_eq!(other.poll_read(&mut cx(), &mut bytes), Poll::Ready(Ok(true)));
        assert!(bytes.len() <= 64, "{} parts", bytes.len());
        length += bytes.concat().len();
    }
}

#[test]
fn a_window_that_is_too_large_is_refused() {
    let mut wide = zstd_safe::CCtx::create();
    wide.set_parameter(zstd_safe::CParameter::WindowLog(27)).unwrap();
    let mut packed = Vec::with_capacity(100_000);
    let mut input = zstd_safe::InBuffer::around(&[1; 100]);
    let mut output = zstd_safe::OutBuffer::around(&mut packed);
    let flush = zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush;
    wide.compress_stream2(&mut output, &mut input, flush).unwrap();
    let mut decoder = Decoder::new(method("zstd:1"), None).unwrap();
    assert!(decoder.decode(&packed, &mut [0; 1_000]).is_err());
}

#[test]
fn a_direction_that_ends_within_a_piece_is_malformed() {
    let [mut one, mut other] = ends(method("zstd:3"), None, 1_000_000);
    write(&mut one, &record(1));
    change(&mut other, |wire| wire.truncate(wire.len() - 1));
    one.finish();
    assert_eq!(read(&mut other), Err(Broken::Malformed));
}

/// Counts how often a reader asks for another turn.
#[derive(Default)]
struct Turns(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Turns {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn pieces_that_make_nothing_let_others_have_a_turn() {
    // A new context with the first byte of a frame, again and again.
    const COUNT: usize = 50_000;
    let [_one, mut other] = ends(method("zstd:3"), None, 1_000_000);
    change(&mut other, |wire| wire.extend([6, 0x28].repeat(COUNT)));
    let turns = std::sync::Arc::new(Turns::default());
    let waker = Waker::from(std::sync::Arc::clone(&turns));
    let mut polls = 0;
    loop {
        let before = turns.0.load(std::sync::atomic::Ordering::Relaxed);
        assert!(other.poll_read(&mut Context::from_waker(&waker), &mut Vec::new()).is_pending());
        polls += 1;
        if turns.0.load(std::sync::atomic::Ordering::Relaxed) == before {
            break;
        }
    }
    assert!(polls >= COUNT / 2_000, "{polls} polls for {COUNT} pieces");
}

/// A program that reads and writes nothing.
struct Idle;

impl Program for Idle {
    fn poll_read(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        Poll::Pending
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &mut Vec<Bytes>) -> Poll<Result<(), Broken>> {
        Poll::Pending
    }

    fn finish(&mut self) {}

    fn reset(&mut self) {}
}

#[test]
fn regression_a_flow_that_is_taken_apart_joins_what_comes_in_small_pieces() {
    const COUNT: usize = 300_000;
    let [mut one, mut other] = ends(method("zlib:1"), None, 1_000_000);
    write(&mut one, &record(1));
    // A byte in each piece, and then the end of the context.
    change(&mut other, |wire| wire.extend([4, b'x'].repeat(COUNT)));
    one.restart().ask();
    one.poll_upkeep(&mut cx());
    let mut flow = Flow::new(Idle, other);
    assert!(flow.poll(&mut cx()).is_pending());
    flow.channel_mut().settle();
    assert_eq!(flow.poll_settled(&mut cx()), Poll::Ready(None));
    assert!(flow.channel().is_settled());
    let (_, _, hand) = flow.into_parts();
    assert!(hand.back.concat() == [record(1), vec![b'x'; COUNT]].concat());
    assert!(hand.back.len() <= 65, "{} parts", hand.back.len());
}

/// A stream whose peer reads nothing.
#[derive(Debug)]
struct Stuck;

impl Channel for Stuck {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        Poll::Pending
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &mut Bytes) -> Poll<Result<(), Broken>> {
        Poll::Pending
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<Broken> {
        Poll::Pending
    }

    fn finish(&mut self) {}

    fn reset(&mut self, _: u64) {}
}

#[test]
fn regression_wishes_of_a_peer_that_reads_nothing_take_no_memory() {
    let mut end = Compressed::new(Stuck, method("zstd:3"), None, 0, None);
    let mut written = Bytes::from(record(1));
    for _ in 0..1_000 {
        end.restart().ask();
        end.poll_upkeep(&mut cx());
        assert!(end.poll_write(&mut cx(), &mut written).is_pending());
    }
    let waiting = end.pause().unwrap().0.pieces.len();
    assert!(waiting < record(1).len() + 10, "{waiting} bytes wait");
}

/// The resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Measures what the contexts of many flows take: `METHOD=zstd:3`, with `DICTIONARY=1` and `BULK=1` if wanted, each in a
/// process of its own, since what is freed stays with it.
#[test]
#[ignore = "a measurement"]
fn memory_of_the_contexts_of_many_flows() {
    let is_set = |name: &str| std::env::var(name).is_ok();
    let text = std::env::var("METHOD").unwrap_or_else(|_| "zstd:3".to_owned());
    let dictionary = is_set("DICTIONARY").then(dictionary);
    let records: Vec<u8> = (0..if is_set("BULK") { 420 } else { 20 }).flat_map(record).collect();
    let part = if is_set("BULK") { 64 * 1024 } else { record(0).len() };
    let count = if text.starts_with("xz") { 500 } else { 5_000 };
    let mut kept = Vec::with_capacity(count);
    // What all share.
    drop(read(&mut ends(method(&text), dictionary.clone(), 1_000_000)[1]));
    let before = resident();
    for _ in 0..count {
        let [mut one, mut other] = ends(method(&text), dictionary.clone(), 1_000_000);
        for written in records.chunks(part) {
            write(&mut one, written);
            assert!(read(&mut other).unwrap() == written);
        }
        kept.push((one, other));
    }
    let whole = resident() - before;
    println!(
        "{text}, {count} flows: {} MiB, {} KiB an encoder and a decoder",
        whole >> 10,
        whole / count as u64
    );
}
